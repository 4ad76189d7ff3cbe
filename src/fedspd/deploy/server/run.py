"""The server of a deployed run: the server legs of a method, round after round, resumed where it stopped."""

import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, NoReturn

import numpy as np

from fedspd.assemble import Agreed, Run
from fedspd.data import Schema, Table, read_schema, read_table
from fedspd.deploy.health import Health
from fedspd.deploy.protocol import messages
from fedspd.deploy.protocol.sums import moments_of, moments_size
from fedspd.deploy.protocol.terms import Terms, columns_of
from fedspd.deploy.server.checkpoint import Checkpoint, load, save
from fedspd.deploy.server.checks import Limit, largest_sums, limits_of, planned_charges
from fedspd.deploy.server.closing import with_statements
from fedspd.deploy.server.cohort import chosen_by_cohort, merged, moments_step, part_limits, upload_step
from fedspd.deploy.server.enroll import LOOK_EVERY, enroll, terms_of
from fedspd.deploy.server.gather import NOTHING, Gathered, Mail, gather_moments, gather_uploads
from fedspd.deploy.server.measuring import ask_for_counts, evaluation_of, kept_words, with_counts
from fedspd.deploy.server.post import MailRoom, Post, Say
from fedspd.deploy.server.results import finished_run, scaled, spent_by_sites, with_own_noise
from fedspd.deploy.server.settings import RunSettings
from fedspd.engine.measuring.diagnostics import accuracies
from fedspd.engine.participation import choose_among
from fedspd.errors import InputError
from fedspd.results.evaluation import Evaluation
from fedspd.typing import Release

RESULTS = "run"
"""The run folder within the server's folder."""


class Server:
    """A run as its server sees it: everything here is public."""

    def __init__(self, room: MailRoom, settings: RunSettings, say: Say, health: Health | None = None) -> None:
        self.settings, self.say, self.post = settings, say, Post(room)
        self.health = health or Health("server", 0)
        self.resuming = False
        federation = settings.federation
        self.schema: Schema = read_schema(settings.home / federation.schema)
        self.test: Table | None = read_table(settings.home / federation.test, self.schema) if federation.test else None
        self.checkpoint = self._resumed() or self._started()
        self.terms: list[Terms] = terms_of(settings, self.schema, list(self.checkpoint.roster), self.checkpoint.run)
        if self.terms[0].digest != self.checkpoint.roster[0].terms:
            raise InputError(f"the schema in {federation.schema} has changed since the run began; restore it.")
        self.agreed: Agreed[Any] = self.terms[0].agreed(self.schema)

    def run(self) -> Run:
        """All rounds that are left, then the sites' statements; a run as a simulation leaves it."""
        if not self.checkpoint.measured:
            self._measure()
        while self.checkpoint.round < self.agreed.rounds and self._enough():
            self._round()
        if not self.checkpoint.history:
            raise InputError("expected at least one round, got none: too few sites could take part; see above why.")
        if self.terms[0].bins and not self.checkpoint.evaluated:
            self._evaluate()
        if not self.checkpoint.finished:
            self._close()
        return finished_run(self.checkpoint, self.terms[0], self.agreed, self.schema, self._scaled_test())

    def _resumed(self) -> Checkpoint | None:
        checkpoint, folder = load(self.settings.folder), self.settings.folder
        if checkpoint is None:
            return None
        if checkpoint.settings != self.settings.text:
            raise InputError(
                f"expected the settings that {folder} was begun with, got others; name another federation.folder for "
                "another run."
            )
        self.say(f"{checkpoint.run} goes on after round {checkpoint.round}")
        self.resuming = True
        nodes = {site: node for node, site in self.post.names.items()}
        if absent := [member.site for member in checkpoint.roster if member.site not in nodes]:
            raise InputError(f"expected the key of {absent[0]!r} in federation.toml, got none; the run began with it.")
        roster = tuple(replace(member, node=nodes[member.site]) for member in checkpoint.roster)
        return replace(checkpoint, roster=roster)

    def _started(self) -> Checkpoint:
        terms, members = enroll(self.post, self.settings, self.schema, self.say)
        agreed, width = terms[0].agreed(self.schema), len(self.schema.columns)
        matrix = columns_of(self.schema, terms[0].config), agreed.algorithm.objective.loss.outputs
        server = agreed.algorithm.start(np.zeros((1, *matrix)))[0]
        scales = np.zeros(width), np.ones(width)
        measured = terms[0].config.data.scaling != "noisy-moments"
        members = [replace(member, planned=planned_charges(agreed, place)) for place, member in enumerate(members)]
        checkpoint = Checkpoint(self.settings.text, terms[0].run, tuple(members), server, *scales, measured)
        save(self.settings.folder, checkpoint)
        self.say(f"{checkpoint.run} starts with {len(members)} sites and {agreed.rounds} rounds{kept_words(terms[0])}")
        return checkpoint

    def _measure(self) -> None:
        """Scale columns by what the sites release of their moments."""
        terms, agreed, schema = self.terms[0], self.agreed, self.schema
        moments = moments_of(terms, agreed, schema)
        size = moments_size(moments)
        scales = self.agreed.plan.moments_scale(moments.sensitivity).tolist()
        limits = {place: largest_sums(self.terms[place], size, scale) for place, scale in enumerate(scales)}
        mail = self._mail(0)
        self._await(list(range(len(self.terms))))
        found = gather_moments(mail, size, limits, moments_step(terms, agreed, schema))
        self._retire(mail)
        if len(found.numbers) < self.settings.fewest:
            self._stop(f"{len(found.numbers)} that released their moments")
        records = int(terms.trained[list(found.numbers)].sum())
        mean, deviation = moments.scaling(Release(found.stack), records)
        self.checkpoint = replace(self.checkpoint, mean=mean, deviation=deviation, measured=True)
        for place, number in found.numbers.items():
            self.checkpoint = self.checkpoint.with_member(place, charges=number)
        save(self.settings.folder, self.checkpoint)

    def _mail(self, round: int, about: str | None = None) -> Mail:
        checkpoint = self.checkpoint
        return Mail(
            self.post, self.settings.federation, checkpoint.roster, checkpoint.run, round, self.say, self.terms[0],
            self.settings.members, about,
        )  # fmt: skip

    def _retire(self, mail: Mail) -> None:
        for place, reason in mail.retired.items():
            self.checkpoint = self.checkpoint.with_member(place, retired=reason)

    def _enough(self) -> bool:
        left, asked = int(self._open().sum()), len(self._choose(self.checkpoint.round + 1))
        if left < self.settings.config.run.min_participants or asked < self.settings.fewest:
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
        config, may = self.terms[0].config, self._open()
        if self.terms[0].shares_noise:
            return chosen_by_cohort(self.terms[0], may, round)
        same = config.run.selection == "fixed"
        return choose_among(config.run.seed or 0, round, config.participants, same, may, int(may.sum()))

    def _round(self) -> None:
        """One round; where sites retired and too few are left of those asked, others are drawn."""
        begin, mail = time.monotonic(), self._mail(self.checkpoint.round + 1)
        chosen = self._choose(mail.round).tolist()
        self._await(chosen)
        asks = {place: self._ask(place, mail.round) for place in chosen}
        found = gather_uploads(
            mail, asks, self._limits(asks, mail.round), upload_step(self.terms[0], self.agreed, self.schema)
        )
        self._retire(mail)
        if len(found.numbers) >= self.settings.fewest or (len(self.terms[0].in_cohorts) > 1 and self.post.nodes()):
            self._merge(found, asks, mail.round)
            self._remember(mail.round, asks, len(found.numbers), mail.late, time.monotonic() - begin)
        elif mail.retired:
            save(self.settings.folder, self.checkpoint)
        else:
            self._stop(f"{len(found.numbers)} that answered round {mail.round}")

    def _await(self, places: list[int]) -> None:
        """Give sites time to connect, where fewer than the quorum are: after a restart, or a cut in the network."""
        federation, said = self.settings.federation, False
        end = time.monotonic() + federation.round_seconds
        while time.monotonic() < end:
            connected = self.post.nodes()
            there = sum(self.checkpoint.roster[place].node in connected for place in places)
            if there >= (len(places) if self.resuming else self.settings.fewest):
                break
            if not said:
                self.say(f"waiting: {there} of {len(places)} sites")
            said = True
            time.sleep(LOOK_EVERY)
        self.resuming = False

    def _limits(self, asks: Mapping[int, messages.Ask], round: int) -> dict[int, Limit]:
        if self.terms[0].shares_noise:
            return part_limits(self.terms[0], self.agreed, self.schema, list(asks))
        return limits_of(self.terms, self.agreed, self.checkpoint.roster, asks, round)

    def _within(self, weights: Any) -> np.ndarray:
        """No larger than what sites take: else one that is not honest could make the others refuse the weights."""
        most = self.settings.federation.largest_weight
        return np.clip(np.asarray(weights), -most, most)

    def _told(self, round: int) -> Any:
        told = self.agreed.algorithm.broadcast(self.checkpoint.server, round)
        return told._replace(weights=self._within(told.weights))

    def _ask(self, place: int, round: int) -> messages.Ask:
        checkpoint = self.checkpoint
        member = checkpoint.roster[place]
        told = self._told(round)
        return messages.Ask(
            member.terms, round, member.acknowledged, np.asarray(told.weights), checkpoint.mean, checkpoint.deviation,
            float(told.stretch),
        )  # fmt: skip

    def _merge(self, found: Gathered, asks: Mapping[int, messages.Ask], round: int) -> None:
        told, zeros = self._told(round), np.zeros_like(found.stack)
        if self.terms[0].shares_noise:
            self.checkpoint = merged(self.checkpoint, self.terms[0], self.agreed, told, found)
        else:
            before, present = self.checkpoint.server, np.ones(len(zeros))
            server = self.agreed.algorithm.merge(before, told, found.stack, zeros, present)
            self.checkpoint = replace(self.checkpoint, server=server)
        self.checkpoint = replace(self.checkpoint, server=self._within(self.checkpoint.server), round=round)
        for place in asks:
            member = self.checkpoint.roster[place]
            changes: dict[str, Any] = {"asked": member.asked + 1}
            if place in found.numbers:
                number = found.numbers[place]
                changes |= {"answered": member.answered + 1, "acknowledged": number, "merged": round, "charges": number}
            self.checkpoint = self.checkpoint.with_member(place, **changes)

    def _remember(self, round: int, asks: Mapping[int, messages.Ask], answered: int, late: int, seconds: float) -> None:
        algorithm, plan = self.agreed.algorithm, self.agreed.plan
        weights, places = np.asarray(algorithm.model(self.checkpoint.server)), np.array(list(asks))
        sizes = np.array([float(self.terms[place].batch(self.agreed)[0]) for place in asks])
        spent = self._spent()
        row: dict[str, Any] = {
            "round": round, "asked": len(asks), "answered": answered, "participants": answered, "late": late,
            "test_accuracy": self._accuracy(weights), "weights_norm": float(np.linalg.norm(weights)),
            "inverse_step": float(self._told(round).inverse_step),
            "noise_scale": float(np.mean(plan.noise_scale(places, algorithm.sensitivity(round, sizes)))),
            "clients_with_budget": int(self._open().sum()), "epsilon_max": spent and spent[0],
            "epsilon_mean": spent and spent[1], "seconds": float(f"{seconds:.3f}"),
        }  # fmt: skip
        kept = self.terms[0].config.run.average_last or max(1, self.agreed.rounds // 4)
        recent = [*self.checkpoint.recent[-(kept - 1) :], weights] if kept > 1 else [weights]
        history = *self.checkpoint.history, row
        self.checkpoint = replace(self.checkpoint, history=history, recent=np.array(recent))
        save(self.settings.folder, self.checkpoint)
        accuracy = "" if row["test_accuracy"] is None else f", test accuracy {row['test_accuracy']:.4f}"
        self.health.set("round", round)
        self.say(
            f"round {round} of {self.agreed.rounds}: {answered} of {len(asks)} answered{accuracy}, {seconds:.1f} s"
        )

    def _spent(self) -> tuple[float, float] | None:
        """The most that a site has spent on this run, and the mean, by the charges that sites report."""
        spent = spent_by_sites(self.checkpoint, self.agreed.plan)
        return None if spent is None else (float(spent.max()), float(spent.mean()))

    def _accuracy(self, weights: np.ndarray) -> float | None:
        table = self._scaled_test()
        return (
            None if table is None else float(accuracies(self.agreed.algorithm.objective.loss, table, weights[None])[0])
        )

    def _scaled_test(self) -> Table | None:
        return None if self.test is None else scaled(self.test, self.checkpoint, self.terms[0])

    def _evaluate(self) -> None:
        """Measure the model on what the sites held out; where too few may still answer, it is not measured."""
        terms, agreed, fewest = self.terms[0], self.agreed, self.settings.fewest
        mail = self._mail(messages.COUNTS, "the measurement")
        if len(self.checkpoint.standing) >= fewest:
            self._await(self.checkpoint.standing)
        found = ask_for_counts(mail, self.checkpoint, terms, agreed, self.schema, self.settings.measure)
        self._retire(mail)
        if len(found.numbers) < fewest <= len(self.checkpoint.standing):
            self._stop(f"{len(found.numbers)} that measured the model")
        enough = len(found.numbers) >= fewest
        self.checkpoint = with_counts(self.checkpoint, found if enough else NOTHING)
        save(self.settings.folder, self.checkpoint)
        self.say(f"the model is {'' if enough else 'not '}measured: {len(found.numbers)} sites released counts")

    @property
    def evaluation(self) -> Evaluation | None:
        """What the sites' counts say of the model."""
        return evaluation_of(self.checkpoint, self.terms[0], self.agreed, self.schema, self.settings.measure)

    def _close(self) -> None:
        """Ask every site what it was charged; who is silent keeps what it last reported."""
        seconds = self.settings.federation.round_seconds
        closed = with_statements(self.post, self.checkpoint, seconds, self.say)
        self.checkpoint = with_own_noise(closed, self.agreed.plan)
        save(self.settings.folder, self.checkpoint)

    def _stop(self, got: str) -> NoReturn:
        save(self.settings.folder, self.checkpoint)
        federation = self.settings.federation
        raise InputError(
            f"expected at least federation.quorum = {federation.quorum} sites within {federation.round_seconds:g} s, "
            f"got {got}; the same command goes on after round {self.checkpoint.round}."
        )
