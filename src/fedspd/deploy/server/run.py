"""The server of a deployed run: the server legs of a method, round after round, resumed where it stopped."""

import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, NoReturn

import numpy as np
from flwr.serverapp import Grid

from fedspd.data import Schema, Table, finish, read_schema, read_table
from fedspd.deploy.protocol import messages
from fedspd.deploy.protocol.terms import Terms, columns_of
from fedspd.deploy.server.checkpoint import Checkpoint, load, save
from fedspd.deploy.server.checks import largest_norm, largest_sums
from fedspd.deploy.server.enroll import enroll, terms_of
from fedspd.deploy.server.gather import Gathered, Mail, gather_moments, gather_uploads
from fedspd.deploy.server.post import Post, Say
from fedspd.deploy.server.results import write_results
from fedspd.deploy.server.settings import RunSettings, read_run_config
from fedspd.engine.diagnostics import accuracies
from fedspd.engine.turns import choose_among
from fedspd.errors import InputError
from fedspd.experiment import Agreed
from fedspd.experiment.proved import make_moments
from fedspd.privacy import ProvedPlan
from fedspd.typing import Release


class Server:
    """A run as its server sees it: everything here is public."""

    def __init__(self, grid: Grid, settings: RunSettings, say: Say) -> None:
        self.settings, self.say, self.post = settings, say, Post(grid)
        self.schema: Schema = read_schema(settings.deploy.schema)
        self.test: Table | None = read_table(settings.deploy.test, self.schema) if settings.deploy.test else None
        self.checkpoint = self._resumed() or self._started()
        self.terms: list[Terms] = terms_of(settings, self.schema, list(self.checkpoint.roster), self.checkpoint.run)
        if self.terms[0].digest != self.checkpoint.roster[0].terms:
            raise InputError(f"the schema in {settings.deploy.schema} has changed since the run began; restore it.")
        self.agreed: Agreed[Any] = self.terms[0].agreed(self.schema)

    def run(self) -> None:
        """All rounds that are left, then the sites' statements."""
        if not self.checkpoint.measured:
            self._measure()
        while self.checkpoint.round < self.agreed.rounds and self._enough():
            self._round()
        self._close()
        write_results(self.settings.folder, self.checkpoint, self.agreed, self.schema, self.say)

    def _resumed(self) -> Checkpoint | None:
        checkpoint, folder = load(self.settings.folder), self.settings.folder
        if checkpoint is None:
            return None
        if checkpoint.settings != self.settings.text:
            raise InputError(
                f"expected the settings that {folder} was begun with, got others; name another deploy.folder for "
                "another run."
            )
        if checkpoint.finished:
            raise InputError(f"the run in {folder} is complete; name another deploy.folder for a new one.")
        self.say(f"{checkpoint.run} goes on after round {checkpoint.round}")
        return checkpoint

    def _started(self) -> Checkpoint:
        terms, members = enroll(self.post, self.settings, self.schema, self.say)
        agreed, width = terms[0].agreed(self.schema), len(self.schema.columns)
        matrix = columns_of(self.schema, terms[0].config), agreed.algorithm.objective.loss.outputs
        server = agreed.algorithm.start(np.zeros((1, *matrix)))[0]
        scales = np.zeros(width), np.ones(width)
        measured = terms[0].config.data.scaling != "noisy-moments"
        checkpoint = Checkpoint(self.settings.text, terms[0].run, tuple(members), server, *scales, measured)
        save(self.settings.folder, checkpoint)
        self.say(f"{checkpoint.run} starts with {len(members)} sites and {agreed.rounds} rounds")
        return checkpoint

    def _measure(self) -> None:
        """Scale columns by what the sites release of their moments."""
        config, holdings = self.terms[0].config, self.terms[0].holdings
        moments = make_moments(config, self.schema.numeric, self.schema.categorical, holdings, self.agreed.plan)
        numbers = int(self.schema.numeric.sum())
        size = numbers + (len(self.schema.columns) if moments.levels else numbers)
        scales = self.agreed.plan.moments_scale(moments.sensitivity).tolist()
        limits = {place: largest_sums(self.terms[place], size, scale) for place, scale in enumerate(scales)}
        mail = self._mail(0)
        found = gather_moments(mail, size, limits)
        self._retire(mail)
        if len(found.numbers) < self.settings.deploy.quorum:
            self._stop(f"{len(found.numbers)} that released their moments")
        records = sum(self.checkpoint.roster[place].records for place in found.numbers)
        mean, deviation = moments.scaling(Release(found.stack), records)
        self.checkpoint = replace(self.checkpoint, mean=mean, deviation=deviation, measured=True)
        for place, number in found.numbers.items():
            self.checkpoint = self.checkpoint.with_member(place, charges=number)
        save(self.settings.folder, self.checkpoint)

    def _mail(self, round: int) -> Mail:
        checkpoint = self.checkpoint
        return Mail(self.post, self.settings.deploy, checkpoint.roster, checkpoint.run, round, self.say)

    def _retire(self, mail: Mail) -> None:
        for place, reason in mail.retired.items():
            self.checkpoint = self.checkpoint.with_member(place, retired=reason)

    def _enough(self) -> bool:
        left, asked = int(self._open().sum()), len(self._choose(self.checkpoint.round + 1))
        if left < self.settings.config.run.min_participants or asked < self.settings.deploy.quorum:
            self.say(f"the run ends after round {self.checkpoint.round}: {left} sites may still take part")
            return False
        return True

    def _open(self) -> np.ndarray:
        """For each site whether it may still be asked: not retired, and with rounds left in the plan."""
        most = self.agreed.plan.most_participations
        caps = [np.inf] * len(self.terms) if most is None else most.tolist()
        return np.array(
            [not site.retired and site.answered < cap for site, cap in zip(self.checkpoint.roster, caps, strict=True)]
        )

    def _choose(self, round: int) -> np.ndarray:
        """Who is asked: as in a simulation, uniformly among those that may still take part."""
        run, may = self.terms[0].config.run, self._open()
        return choose_among(run.seed, round, run.participants, run.selection == "fixed", may, int(may.sum()))

    def _round(self) -> None:
        """One round; where sites retired and too few are left of those asked, others are drawn."""
        begin, mail = time.monotonic(), self._mail(self.checkpoint.round + 1)
        asks = {place: self._ask(place, mail.round) for place in self._choose(mail.round).tolist()}
        limits = {place: self._limit(place, ask) for place, ask in asks.items()}
        found = gather_uploads(mail, asks, limits)
        self._retire(mail)
        if len(found.numbers) >= self.settings.deploy.quorum:
            self._merge(found, asks, mail.round)
            self._remember(mail.round, len(asks), len(found.numbers), mail.late, time.monotonic() - begin)
        elif mail.retired:
            save(self.settings.folder, self.checkpoint)
        else:
            self._stop(f"{len(found.numbers)} that answered round {mail.round}")

    def _ask(self, place: int, round: int) -> messages.Ask:
        checkpoint = self.checkpoint
        member = checkpoint.roster[place]
        weights = np.asarray(self.agreed.algorithm.broadcast(checkpoint.server, round).weights)
        return messages.Ask(member.terms, round, member.acknowledged, weights, checkpoint.mean, checkpoint.deviation)

    def _limit(self, place: int, ask: messages.Ask) -> float:
        asked = self.checkpoint.roster[place].asked + 1
        return largest_norm(self.terms[place], self.agreed, ask.weights, ask.round, asked)

    def _merge(self, found: Gathered, asks: Mapping[int, messages.Ask], round: int) -> None:
        algorithm, checkpoint = self.agreed.algorithm, self.checkpoint
        told = algorithm.broadcast(checkpoint.server, round)
        zeros = np.zeros_like(found.stack)
        server = algorithm.merge(checkpoint.server, told, found.stack, zeros, np.ones(len(zeros)))
        self.checkpoint = replace(checkpoint, server=np.asarray(server), round=round)
        for place in asks:
            member = self.checkpoint.roster[place]
            changes: dict[str, Any] = {"asked": member.asked + 1}
            if place in found.numbers:
                number = found.numbers[place]
                changes |= {"answered": member.answered + 1, "acknowledged": number, "charges": number}
            self.checkpoint = self.checkpoint.with_member(place, **changes)

    def _remember(self, round: int, asked: int, answered: int, late: int, seconds: float) -> None:
        weights = np.asarray(self.agreed.algorithm.model(self.checkpoint.server))
        row: dict[str, Any] = {
            "round": round, "asked": asked, "answered": answered, "late": late,
            "epsilon_max": self._epsilon(), "weights_norm": float(np.linalg.norm(weights)),
            "test_accuracy": self._accuracy(weights), "seconds": float(f"{seconds:.3f}"),
        }  # fmt: skip
        self.checkpoint = replace(self.checkpoint, history=(*self.checkpoint.history, row))
        save(self.settings.folder, self.checkpoint)
        accuracy = "" if row["test_accuracy"] is None else f", test accuracy {row['test_accuracy']:.4f}"
        self.say(f"round {round} of {self.agreed.rounds}: {answered} of {asked} answered{accuracy}, {seconds:.1f} s")

    def _epsilon(self) -> float | None:
        """The most that a site has spent on this run, by the charges that sites report."""
        plan = self.agreed.plan
        if not isinstance(plan, ProvedPlan):
            return None
        charges = np.array([member.charges for member in self.checkpoint.roster])
        before = np.array([group.moments is not None for group in plan.groups])[plan.group]
        return float(plan.spent(np.arange(len(charges)), np.maximum(charges - before, 0)).max())

    def _accuracy(self, weights: np.ndarray) -> float | None:
        if self.test is None:
            return None
        data = self.settings.config.data
        assert data.row_norm is not None
        features = finish(self.test.features, self.checkpoint.mean, self.checkpoint.deviation, data.bias, data.row_norm)
        columns = (*self.test.columns, *(("bias",) if data.bias else ()))
        table = self.test.with_features(features, columns)
        return float(accuracies(self.agreed.algorithm.objective.loss, table, weights[None])[0])

    def _close(self) -> None:
        """Ask every site what it was charged; who is silent keeps what it last reported."""
        requests = {member.node: messages.Close(member.terms) for member in self.checkpoint.roster}
        answers = self.post.ask("query.close", requests, self.settings.deploy.round_seconds, "the end")
        for place, member in enumerate(self.checkpoint.roster):
            match answers.content.get(member.node):
                case messages.Closed(terms, charges, epsilon) if terms == member.terms and charges >= member.charges:
                    self.checkpoint = self.checkpoint.with_member(place, charges=charges, epsilon=epsilon)
                case _:
                    self.say(f"{member.site} sent no statement")
        self.checkpoint = replace(self.checkpoint, finished=True)
        save(self.settings.folder, self.checkpoint)

    def _stop(self, got: str) -> NoReturn:
        save(self.settings.folder, self.checkpoint)
        deploy = self.settings.deploy
        raise InputError(
            f"expected at least deploy.quorum = {deploy.quorum} sites within {deploy.round_seconds:g} s, got {got}; "
            f"`flwr run` on the same folder goes on after round {self.checkpoint.round}."
        )


def serve(grid: Grid, values: Mapping[str, Any], say: Say = print) -> None:
    """Run, or go on with, what Flower's run configuration describes."""
    Server(grid, read_run_config(values), say).run()
