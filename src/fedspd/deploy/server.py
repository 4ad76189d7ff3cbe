"""The server of a deployed run: the server legs of a method, round after round, resumed where it stopped."""

import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from flwr.serverapp import Grid

from fedspd.data import Schema, finish, read_schema, read_table
from fedspd.data.dataset import Table
from fedspd.deploy import messages
from fedspd.deploy.checkpoint import Checkpoint, load, save
from fedspd.deploy.checks import largest_norm, refuse_reply
from fedspd.deploy.enroll import enroll, terms_of
from fedspd.deploy.post import Answers, Post, Say
from fedspd.deploy.results import write_results
from fedspd.deploy.run_config import RunSettings, read_run_config
from fedspd.deploy.secure import Round, sum_securely
from fedspd.deploy.terms import SECURE, Terms, columns_of
from fedspd.engine.diagnostics import accuracies
from fedspd.engine.turns import choose_among
from fedspd.errors import InputError
from fedspd.experiment import Agreed
from fedspd.experiment.proved import make_moments
from fedspd.privacy import ProvedPlan
from fedspd.typing import Release


class Merged(NamedTuple):
    """What a round brought."""

    uploads: np.ndarray  # a stack whose sum is that of all accepted uploads, one row for each
    replies: dict[int, int]  # number of each accepted reply, by place


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
        checkpoint = load(self.settings.folder)
        if checkpoint is None:
            return None
        if checkpoint.settings != self.settings.text:
            raise InputError(
                f"expected the settings that {self.settings.folder} was begun with, got others; name another "
                "deploy.folder for another run."
            )
        if checkpoint.finished:
            raise InputError(
                f"the run in {self.settings.folder} is complete; name another deploy.folder for a new one."
            )
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
        mail = Mail(self, 0)
        secure = self.settings.deploy.aggregation == SECURE
        total, charges = self._moments_securely(size, mail) if secure else self._moments_plainly(size, mail)
        if len(charges) < self.settings.deploy.quorum:
            self._stop(f"{len(charges)} sites released their moments")
        records = sum(self.checkpoint.roster[place].records for place in charges)
        mean, deviation = moments.scaling(Release(total[None]), records)
        self.checkpoint = replace(self.checkpoint, mean=mean, deviation=deviation, measured=True)
        for place, number in charges.items():
            self.checkpoint = self.checkpoint.with_member(place, charges=number)
        save(self.settings.folder, self.checkpoint)

    def _moments_plainly(self, size: int, mail: "Mail") -> tuple[np.ndarray, dict[int, int]]:
        requests = {place: messages.Measure(member.terms) for place, member in enumerate(self.checkpoint.roster)}
        sound = {
            place: answer
            for place, answer in mail.exchange("train.measure", requests).items()
            if _sound(answer, requests[place].terms, size)
        }
        total = np.sum([answer.moments for answer in sound.values()], axis=0)
        return total, {place: answer.charges for place, answer in sound.items()}

    def _moments_securely(self, size: int, mail: "Mail") -> tuple[np.ndarray, dict[int, int]]:
        roster = self.checkpoint.roster
        found = sum_securely(
            Round(
                self.checkpoint.run,
                0,
                {place: member.terms for place, member in enumerate(roster)},
                "train.measure_masked",
                lambda place, attempt, shares: messages.MeasureMasked(roster[place].terms, 0, attempt, shares),
                lambda place, reply: refuse_reply(reply, roster[place], 0, (size,), 0.0) is None,
                self.settings.deploy.neighbors,
            ),
            mail.exchange,
        )
        return (np.zeros(size), {}) if found is None else (found.total, found.numbers)

    def _enough(self) -> bool:
        open_sites = int(self._open().sum())
        if open_sites < max(self.settings.deploy.quorum, self.settings.config.run.min_participants):
            self.say(f"the run ends after round {self.checkpoint.round}: {open_sites} sites may still take part")
            return False
        return True

    def _open(self) -> np.ndarray:
        """For each site whether it may still be asked: not retired, and with rounds left in the plan."""
        most = self.agreed.plan.most_participations
        caps = [np.inf] * len(self.checkpoint.roster) if most is None else most.tolist()
        return np.array(
            [not site.retired and site.answered < cap for site, cap in zip(self.checkpoint.roster, caps, strict=True)]
        )

    def _round(self) -> None:
        """One round; where sites retired and too few are left of those asked, the others are drawn anew."""
        begin, round, before = time.monotonic(), self.checkpoint.round + 1, int(self._open().sum())
        chosen = self._choose(round)
        asks = {place: self._ask(place, round) for place in chosen.tolist()}
        mail = Mail(self, round)
        secure = self.settings.deploy.aggregation == SECURE
        merged = self._sum_securely(asks, mail) if secure else self._sum_plainly(asks, mail)
        if len(merged.replies) < self.settings.deploy.quorum:
            if int(self._open().sum()) == before:
                self._stop(f"{len(merged.replies)} sites answered round {round}")
            save(self.settings.folder, self.checkpoint)
            return
        self._merge(merged, asks, round)
        self._remember(round, len(asks), len(merged.replies), mail.late, time.monotonic() - begin)

    def _choose(self, round: int) -> np.ndarray:
        """Who is asked: as in a simulation, uniformly among those that may still take part."""
        may, run = self._open(), self.terms[0].config.run
        return choose_among(run.seed, round, run.participants, run.selection == "fixed", may, int(may.sum()))

    def _ask(self, place: int, round: int) -> messages.Ask:
        checkpoint = self.checkpoint
        member = checkpoint.roster[place]
        weights = np.asarray(self.agreed.algorithm.broadcast(checkpoint.server, round).weights)
        return messages.Ask(member.terms, round, member.acknowledged, weights, checkpoint.mean, checkpoint.deviation)

    def _sum_plainly(self, asks: Mapping[int, messages.Ask], mail: "Mail") -> Merged:
        answers = mail.exchange("train.play", asks)
        accepted = {place: reply for place, reply in answers.items() if self._accepts(place, reply, asks[place])}
        uploads = [reply.upload for reply in accepted.values()]
        return Merged(np.array(uploads), {place: reply.charges for place, reply in accepted.items()})

    def _sum_securely(self, asks: Mapping[int, messages.Ask], mail: "Mail") -> Merged:
        """One row holds the sum; the others are zero, as nobody's upload is known."""
        found = sum_securely(
            Round(
                self.checkpoint.run,
                mail.round,
                {place: ask.terms for place, ask in asks.items()},
                "train.mask",
                lambda place, attempt, shares: messages.AskMasked(*asks[place], attempt, shares),
                lambda place, reply: self._accepts(place, reply, asks[place]),
                self.settings.deploy.neighbors,
            ),
            mail.exchange,
        )
        if found is None:
            return Merged(np.zeros((0, 0)), {})
        limit = sum(self._limit(place, asks[place]) for place in found.numbers)
        if not np.linalg.norm(found.total) <= limit:
            self.say(f"round {mail.round}: the sum is rejected: its norm is beyond {limit:.3g}")
            return Merged(np.zeros((0, 0)), {})
        shape = next(iter(asks.values())).weights.shape
        uploads = np.zeros((len(found.numbers), *shape))
        uploads[0] = found.total.reshape(shape)
        return Merged(uploads, found.numbers)

    def _limit(self, place: int, ask: messages.Ask) -> float:
        asked = self.checkpoint.roster[place].asked + 1
        return largest_norm(self.terms[place], self.agreed, ask.weights, ask.round, asked)

    def _accepts(self, place: int, reply: messages.Reply | messages.Masked, ask: messages.Ask) -> bool:
        member = self.checkpoint.roster[place]
        why = refuse_reply(reply, member, ask.round, ask.weights.shape, self._limit(place, ask))
        if why is not None:
            self.say(f"round {ask.round}: the reply of {member.site} is rejected: {why}")
        return why is None

    def note(self, place: int, answer: Any, answers: Answers) -> None:
        """Report a site that did not do as asked; one that never will is not asked again."""
        member = self.checkpoint.roster[place]
        match answer:
            case messages.Refused(reason, final):
                self.say(f"{member.site} refuses: {reason}")
                if final:
                    self.checkpoint = self.checkpoint.with_member(place, retired=reason)
            case None:
                self.say(
                    f"{member.site} keeps its last reply: {answers.unreadable.get(member.node, 'no answer in time')}"
                )
            case _:
                self.say(f"{member.site} keeps its last reply: it answered something else")

    def _merge(self, merged: Merged, asks: Mapping[int, messages.Ask], round: int) -> None:
        algorithm, checkpoint = self.agreed.algorithm, self.checkpoint
        told = algorithm.broadcast(checkpoint.server, round)
        zeros = np.zeros_like(merged.uploads)
        server = algorithm.merge(checkpoint.server, told, merged.uploads, zeros, np.ones(len(zeros)))
        self.checkpoint = replace(checkpoint, server=np.asarray(server), round=round)
        for place in asks:
            member = self.checkpoint.roster[place]
            changes: dict[str, Any] = {"asked": member.asked + 1}
            if place in merged.replies:
                number = merged.replies[place]
                changes |= {"answered": member.answered + 1, "acknowledged": number, "charges": number}
            self.checkpoint = self.checkpoint.with_member(place, **changes)

    def _remember(self, round: int, asked: int, answered: int, late: int, seconds: float) -> None:
        weights = np.asarray(self.agreed.algorithm.model(self.checkpoint.server))
        row: dict[str, Any] = {
            "round": round, "asked": asked, "answered": answered, "late": late,
            "epsilon_max": self._epsilon(), "weights_norm": float(np.linalg.norm(weights)),
            "test_accuracy": self._accuracy(weights), "seconds": round_off(seconds),
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
            answer = answers.content.get(member.node)
            if (
                isinstance(answer, messages.Closed)
                and answer.terms == member.terms
                and answer.charges >= member.charges
            ):
                self.checkpoint = self.checkpoint.with_member(place, charges=answer.charges, epsilon=answer.epsilon)
            else:
                self.say(f"{member.site} sent no statement")
        self.checkpoint = replace(self.checkpoint, finished=True)
        save(self.settings.folder, self.checkpoint)

    def _stop(self, got: str) -> None:
        save(self.settings.folder, self.checkpoint)
        raise InputError(
            f"expected at least deploy.quorum = {self.settings.deploy.quorum} sites within "
            f"{self.settings.deploy.round_seconds:g} s, got {got}; `flwr run` on the same folder goes on after round "
            f"{self.checkpoint.round}."
        )


class Mail:
    """The exchanges of one round, which may be several."""

    def __init__(self, server: Server, round: int) -> None:
        self.server, self.round, self.late = server, round, 0

    def exchange(self, kind: str, requests: Mapping[int, Any]) -> dict[int, Any]:
        """The right kind of answers, by place; everything else is reported."""
        server = self.server
        nodes = {place: server.checkpoint.roster[place].node for place in requests}
        sent = {nodes[place]: request for place, request in requests.items()}
        answers = server.post.ask(kind, sent, server.settings.deploy.round_seconds, f"round {self.round}")
        self.late += len(answers.late)
        for what in answers.late:
            server.say(f"round {self.round}: a late answer is dropped: {what}")
        right = {}
        for place, node in nodes.items():
            answer = answers.content.get(node)
            if isinstance(answer, messages.REPLIES[kind]):
                right[place] = answer
            else:
                server.note(place, answer, answers)
        return right


def round_off(seconds: float) -> float:
    """Milliseconds are enough."""
    return round(seconds, 3)


def _sound(answer: messages.Measured, terms: str, size: int) -> bool:
    sums = answer.moments
    return (
        answer.terms == terms and sums.dtype == np.float64 and sums.shape == (size,) and bool(np.isfinite(sums).all())
    )


def serve(grid: Grid, values: Mapping[str, Any], say: Say = print) -> None:
    """Run, or go on with, what Flower's run configuration describes."""
    Server(grid, read_run_config(values), say).run()
