"""Everything that server and sites say to each other. How it travels is known to `wire` alone."""

from typing import NamedTuple

import numpy as np

VERSION = 5
"""Of these messages: server and sites must have the same."""
COUNTS = -1
"""The number of the masked round in which held-out records are counted, which no round of training has."""


class Hello(NamedTuple):
    """Server: who is there?"""

    version: int
    nonce: str  # part of what the site signs, so that an answer belongs to this question
    unit: str = "record"  # what is to be counted: records, persons, or the client itself


class Present(NamedTuple):
    """Site: its name, its number of records or persons (public) and the schema they keep to, signed by its key."""

    site: str
    records: int
    schema: str
    program: str  # version of fedspd
    signature: bytes


def signed_presence(present: Present, nonce: str) -> tuple[bytes, ...]:
    """What a site's signature on its presence covers."""
    said = (nonce, present.site, str(present.records), present.schema, present.program)
    return tuple(part.encode() for part in said)


class Enter(NamedTuple):
    """Server: these are the run's terms (`terms.Terms` as text)."""

    terms: str


class Entered(NamedTuple):
    """Site: agreed; nothing is spent yet."""

    terms: str  # digest
    agreement: str  # digest of method and plan as the site derived them
    program: str  # version of fedspd


class Waiting(NamedTuple):
    """Site: not yet, and for what; asking again is of use."""

    waiting: str


class Measure(NamedTuple):
    """Server: release the moments of your columns."""

    terms: str


class Measured(NamedTuple):
    """Site: its noised sums."""

    terms: str
    moments: np.ndarray
    charges: int


class Ask(NamedTuple):
    """Server: play this round."""

    terms: str
    round: int
    acknowledged: int  # the round of the site's last reply that is part of the server's sum; 0: none
    weights: np.ndarray
    mean: np.ndarray  # what columns are scaled by
    deviation: np.ndarray
    stretch: float  # of the upload: a function of what was released before, and applied to what is


class Reply(NamedTuple):
    """Site: its upload."""

    terms: str
    round: int
    upload: np.ndarray
    charges: int  # how often the site has been charged in this run


class Exchange(NamedTuple):
    """Server, before a masked round: publish fresh keys."""

    terms: str
    round: int
    attempt: str  # a masked round that is begun again has fresh keys, a fresh upload and another charge


class Published(NamedTuple):
    """Site: its public keys for this attempt, signed by its long-term key."""

    terms: str
    round: int
    keys: bytes
    signature: bytes


class Deal(NamedTuple):
    """Server: the signed keys of the others; share your secrets among them."""

    terms: str
    round: int
    attempt: str
    keys: dict[int, bytes]
    signatures: dict[int, bytes]


class Dealt(NamedTuple):
    """Site: one sealed share for each of the others, each signed."""

    terms: str
    round: int
    shares: dict[int, bytes]
    signatures: dict[int, bytes]


class AskMasked(NamedTuple):
    """Server: play this round and mask what you upload; shares come from the others that are still there."""

    terms: str
    round: int
    acknowledged: int
    weights: np.ndarray
    mean: np.ndarray
    deviation: np.ndarray
    stretch: float
    attempt: str
    shares: dict[int, bytes]
    signatures: dict[int, bytes]


class MeasureMasked(NamedTuple):
    """Server: release the moments of your columns, masked; round is 0."""

    terms: str
    round: int
    attempt: str
    shares: dict[int, bytes]
    signatures: dict[int, bytes]


class Masked(NamedTuple):
    """Site: its masked upload."""

    terms: str
    round: int
    upload: np.ndarray  # uint64
    charges: int


class Complaint(NamedTuple):
    """Site, instead of a masked upload: shares dealt to it are none, as it can prove. Nothing is spent."""

    terms: str
    round: int
    proofs: dict[int, bytes]  # by dealer


class Confirm(NamedTuple):
    """Server: the masked uploads of these places have arrived; sign that they, and no others, are to be summed."""

    terms: str
    round: int
    attempt: str
    survivors: list[int]


class Confirmed(NamedTuple):
    """Site: its signature on the survivors; it signs no other set in this attempt."""

    terms: str
    round: int
    signature: bytes


class Unmask(NamedTuple):
    """Server: so many have signed the survivors that you signed; give the shares that remove the masks of their sum."""

    terms: str
    round: int
    attempt: str
    signatures: dict[int, bytes]


class Unmasked(NamedTuple):
    """Site: one share of each that dealt to it."""

    terms: str
    round: int
    shares: dict[int, bytes]


class Count(NamedTuple):
    """Server, after the last round: release counts of the records that you held out, by what this model says of them.

    What is counted, and with how much noise, is in the terms.
    """

    terms: str
    weights: np.ndarray
    mean: np.ndarray  # what columns are scaled by
    deviation: np.ndarray


class CountMasked(NamedTuple):
    """Server: the same, masked; round is `COUNTS`."""

    terms: str
    round: int
    weights: np.ndarray
    mean: np.ndarray
    deviation: np.ndarray
    attempt: str
    shares: dict[int, bytes]
    signatures: dict[int, bytes]


class Counted(NamedTuple):
    """Site: its noised counts."""

    terms: str
    counts: np.ndarray
    charges: int


class Close(NamedTuple):
    """Server: the run is over; what was it charged?"""

    terms: str


class Closed(NamedTuple):
    """Site: charges of this run and what they cost by themselves."""

    terms: str
    charges: int
    epsilon: float


class Refused(NamedTuple):
    """Site: no, and why. Nothing is spent."""

    reason: str
    final: bool  # whether asking again is of no use in this run


REQUESTS = {
    "query.hello": Hello,
    "query.enter": Enter,
    "train.measure": Measure,
    "train.play": Ask,
    "train.exchange": Exchange,
    "train.deal": Deal,
    "train.mask": AskMasked,
    "train.measure_masked": MeasureMasked,
    "train.confirm": Confirm,
    "train.unmask": Unmask,
    "train.count": Count,
    "train.count_masked": CountMasked,
    "query.close": Close,
}
"""Every request by the type of the message that carries it."""

REPLIES = {
    "query.hello": Present,
    "query.enter": Entered,
    "train.measure": Measured,
    "train.play": Reply,
    "train.exchange": Published,
    "train.deal": Dealt,
    "train.mask": Masked,
    "train.measure_masked": Masked,
    "train.confirm": Confirmed,
    "train.unmask": Unmasked,
    "train.count": Counted,
    "train.count_masked": Masked,
    "query.close": Closed,
}
"""What a site answers to each, unless it refuses."""

OTHERWISE = {
    "train.mask": Complaint,
    "train.measure_masked": Complaint,
    "train.count_masked": Complaint,
    "query.enter": Waiting,
}
"""What it answers where others keep it from replying, or a person has to."""
