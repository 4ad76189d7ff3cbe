"""Every method by name, with all that `fedspd methods` says of it: the columns of Table 1, and what it may claim.

Table 1 is that of the FedSPD-DP paper (arXiv 2204.12284). What it prints stands beside what runs here, where they
differ too: a method may be run here with some of its clients although it was published for all of them.
"""

from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple

from fedspd.privacy.mechanism import Law

SEVERAL, ONE_SGD, ONE_GD, EXACT = "several SGD steps", "one SGD step", "one GD step", "exact minimization"
"""Local updates. Table 1 calls the first three LMSGD, LSGD and LGD, and exact minimizers LGD too."""
NON_SMOOTH = "convex, non-smooth"
SMOOTH = "convex, smooth"
NO_TOTAL = "the total is a formula without a proof"
A_TOTAL = "(ε, δ)-DP of every record over all rounds, by the proof in docs/privacy.md."
PURE_ROUNDS = "pure DP of a round; rounds compose to (ε, δ)-DP of every record, by the proof in docs/privacy.md."
HIDDEN = "un-noised state is carried from round to round"


LAWS: dict[str, Law] = {"Gaussian": "gaussian", "spherical Laplace": "laplace", "none": "gaussian"}
"""The noise of a method, as mechanisms and plans call it."""


class Printed(NamedTuple):
    """A row of Table 1, its shorthand in words."""

    local_updates: str
    objective: str
    partial: bool
    rate: str


@dataclass(frozen=True, kw_only=True)
class Method:
    """What a method is, what it may claim, and why no more than that."""

    title: str  # as tables and figures call it
    citation: str
    guarantee: Literal["proved", "as published", "none"]  # the strongest its runs may carry
    caveat: str = ""  # why it is not proved
    claimed: str  # by its authors, one sentence
    proved: str = ""  # what holds here, one sentence
    noise: Literal["Gaussian", "spherical Laplace", "none"]  # the second is pure differential privacy
    relation: str = "replace-one"
    released: str  # what leaves a client
    private_state: str = ""  # what a client has un-noised beside its query
    reconstruction: bool = False  # known by its abstract, or from others, only
    confidence: str  # high, medium or low, and where the text of the method comes from
    table_1: bool = False  # a row of Table 1, or cited beside it
    printed: Printed | None = None  # that row
    local_updates: str
    objective: str  # what it is run on here: non-smooth takes every regularizer
    partial: bool  # some of the clients may take part in a round
    rate: str = ""  # of convergence, T rounds of Q local steps; "" where none is known for what runs here
    deploys: bool = False  # may run between real sites


def label(name: str, title: str = "") -> str:
    """What a table or a figure calls a method: its title, or the one given, and whether it is a reconstruction.

    A name that is not listed, of a run folder that another version wrote, is shown as it is.
    """
    method = METHODS.get(name)
    words = title or (method.title if method else name)
    return f"{words} (reconstruction)" if method and method.reconstruction else words


def as_published(method: Method, caveat: str, **changes: Any) -> Method:
    """The same method with its own calibration, which is not proved."""
    title = f"{method.title} as published"
    return replace(method, title=title, guarantee="as published", caveat=caveat, proved="", **changes)


FEDSPD = Method(
    title="FedSPD-DP", citation="Li, Wang, Chang, Chi 2022, arXiv 2204.12284; with released state: docs/privacy.md",
    guarantee="proved", claimed="(ε, δ)-DP of a round, and c0 q ε sqrt(pT/(1-q)) in total by Theorem 1.",
    proved=A_TOTAL, noise="Gaussian",
    released="the average of the local steps; dual, upload and next start follow from it",
    confidence="high: the paper's own text, changed where its proof fails", table_1=True,
    printed=Printed(SEVERAL, NON_SMOOTH, True, "O(1/sqrt(TQ))"),
    local_updates=SEVERAL, objective=NON_SMOOTH, partial=True, deploys=True,
)  # fmt: skip
DP_SGD = Method(
    title="DP-SGD", citation="Abadi et al. 2016, CCS, doi 10.1145/2976749.2978318",
    guarantee="proved", claimed="(ε, δ)-DP of a round, and (O(q ε sqrt(T)), δ) in total by the moments accountant.",
    proved=A_TOTAL, noise="Gaussian",
    released="the mean of clipped record gradients",
    confidence="high: the method; how it is federated is the FedSPD-DP paper's", table_1=True,
    printed=Printed(ONE_SGD, "non-convex, smooth", False, ""),
    local_updates=ONE_SGD, objective=NON_SMOOTH, partial=True, deploys=True,
)  # fmt: skip
DP_FEDAVG = Method(
    title="DP-FedAvg", reconstruction=True,
    citation='Li, Chang, Chi 2020, "Secure federated averaging with differential privacy", MLSP',
    guarantee="proved", claimed="(ε, δ)-DP of a round, with the total of the FedSPD-DP paper's Theorem 1.",
    proved=A_TOTAL, noise="Gaussian",
    released="the last local iterate",
    confidence="low: its abstract only", table_1=True,
    printed=Printed(SEVERAL, "strongly convex, smooth", True, "O(1/(TQ))"),
    local_updates=SEVERAL, objective=NON_SMOOTH, partial=True, deploys=True,
)  # fmt: skip
DP_ADMM = Method(
    title="DP-ADMM",
    citation="Huang, Hu, Guo, Chan-Tin, Gong 2020, TIFS, doi 10.1109/TIFS.2019.2931068, arXiv 1808.10101",
    guarantee="proved", claimed="(ε, δ)-DP of a round, and (c0 ε sqrt(T), δ) in total by the moments accountant.",
    proved=A_TOTAL, noise="Gaussian",
    released="the local iterate; duals follow from it",
    confidence="high: its update is that of public code; medium: its step sizes", table_1=True,
    printed=Printed(ONE_GD, NON_SMOOTH, False, "O(1/sqrt(T))"),
    local_updates=ONE_GD, objective=NON_SMOOTH, partial=True, deploys=True,
)  # fmt: skip
DDP_ADMM_DVP = Method(
    title="DDP-ADMM (DVP)", citation="Zhang, Zhu 2017, TIFS 12(1), doi 10.1109/TIFS.2016.2607691",
    guarantee="proved", claimed="Pure DP of a round, without a total.",
    proved=PURE_ROUNDS, noise="spherical Laplace",
    released="the local minimizer itself, of an objective with noise; duals follow from it",
    confidence="medium: its structure is well known, its constants are from memory", table_1=True,
    printed=Printed(ONE_GD, "strongly convex, smooth", False, ""),
    local_updates=EXACT, objective=SMOOTH, partial=False,
)  # fmt: skip
DDP_ADMM_PVP = replace(
    DDP_ADMM_DVP, title="DDP-ADMM (PVP)", released="the local minimizer with noise; duals follow from it",
)  # fmt: skip
DP_MADMM = replace(
    DDP_ADMM_DVP, title="DP-MADMM",
    claimed="Pure DP over all rounds, a sum over them that needs m (μ + 2ηV) > 2L.",
    citation="Zhang, Khalili, Liu 2018, ICML, arXiv 1806.02246",
    confidence="medium: its structure is from its text, its settings are from memory",
    printed=Printed(ONE_GD, SMOOTH, False, "O(1/sqrt(T))"),
)  # fmt: skip
DP_RADMM = replace(
    DP_MADMM, title="DP-RADMM",
    claimed="Pure DP over all odd rounds, a sum over them that needs m (μ + 2ηV) > 2L.",
    citation="Zhang, Khalili, Liu 2018, Allerton, arXiv 1810.03197",
    released="the local minimizer of odd rounds, of an objective with noise; all else follows from it",
    printed=Printed(ONE_GD, SMOOTH, False, ""),
)  # fmt: skip
DP_AADMM = Method(
    title="DP-AADMM", reconstruction=True,
    citation='Guo, Gong 2018, "Practical collaborative learning for crowdsensing in the internet of things with '
    'differential privacy", CNS',
    guarantee="as published",
    caveat="un-noised duals are carried, and the noise of a round is shared under a secure sum",
    claimed="(ε, δ)-DP of a round's sum of uploads, against whoever sees no single upload.", noise="Gaussian",
    released="the sum of a round's uploads, by a secure sum", private_state="local minimizer and dual",
    confidence="low: its abstract only", table_1=True, printed=Printed(ONE_GD, NON_SMOOTH, True, ""),
    local_updates=EXACT, objective=NON_SMOOTH, partial=True,
)  # fmt: skip
DP_LR_ADMM = Method(
    title="DP-LR-ADMM", reconstruction=True,
    citation="Wang, Ishii, Du, Cheng, Chen 2020, TSP, arXiv 1908.01059",
    guarantee="proved",
    claimed="labels private even from their own server, and zero-concentrated DP in total; constants unknown here.",
    proved=A_TOTAL, noise="Gaussian",
    released="the local minimizer with noise, learned from flipped labels; duals follow from it",
    confidence="low: its abstract and tables", table_1=True, printed=Printed(ONE_GD, SMOOTH, False, ""),
    local_updates=EXACT, objective=SMOOTH, partial=False,
)  # fmt: skip
PS_ADMM = Method(
    title="PS-ADMM", reconstruction=True,
    citation="Ding, Errapotu, Zhang, Gong, Pan, Han 2019, SecureComm, doi 10.1007/978-3-030-37228-6_13",
    guarantee="proved", claimed="(ε, δ)-DP in total; constants unknown here.",
    proved=A_TOTAL, noise="Gaussian",
    released="the gradient of a batch; weights and duals follow from it",
    confidence="low: its abstract only", table_1=True, local_updates=ONE_SGD, objective=NON_SMOOTH, partial=True,
    deploys=True,
)  # fmt: skip
MULTI_STEP = Method(
    title="multi-step DP-ADMM", reconstruction=True, citation="Huang, Gong 2020, arXiv 2005.07890",
    guarantee="proved", claimed="(ε, δ)-DP in total, every step on all records; constants unknown here.",
    proved=A_TOTAL, noise="Gaussian",
    released="the gradient of every local step; weights and duals follow from them",
    confidence="low: its abstract only", local_updates=SEVERAL, objective=NON_SMOOTH, partial=True,
)  # fmt: skip
PRIVATE_ADMM = Method(
    title="private ADMM", citation="Cyffers, Bellet, Basu 2023, ICML, arXiv 2302.12559",
    guarantee="proved",
    claimed="Rényi DP of a user with one record, locally, and amplified for who sees the last model only.",
    proved=A_TOTAL, noise="Gaussian", released="the client's anchor, all that it carries",
    confidence="high: its update is that of the authors' code; for records of clients with many it is adapted here",
    local_updates=EXACT, objective=NON_SMOOTH, partial=True,
)  # fmt: skip
DP_SCAFFOLD = Method(
    title="DP-SCAFFOLD", citation="Noble, Bellet, Dieuleveut 2022, AISTATS, arXiv 2111.09278",
    guarantee="proved",
    claimed="(ε, δ)-DP of a record for who sees the last model only, with amplification by sampling.",
    proved=A_TOTAL, noise="Gaussian",
    released="the gradient of every local step; control variates follow from them",
    confidence="high: its update is that of the authors' code",
    local_updates=SEVERAL, objective=NON_SMOOTH, partial=True,
)  # fmt: skip
NOISY_PROX_GD = Method(
    title="noisy proximal gradient", citation="Lowy, Razaviyayn 2023, ICLR, arXiv 2106.09779",
    guarantee="proved", claimed="(ε, δ)-DP of every record against everybody but its own client.",
    proved=A_TOTAL, noise="Gaussian", released="the gradient of the whole shard",
    confidence="high: a standard method; its momentum is plainer than the authors'",
    local_updates=ONE_GD, objective=NON_SMOOTH, partial=True,
)  # fmt: skip
DP_FTRL = Method(
    title="DP-FTRL, banded", citation="Kairouz et al. 2021, ICML, arXiv 2103.00039; bands: Choquette-Choo et al. 2023, "
    "NeurIPS, arXiv 2306.08153",
    guarantee="proved", claimed="(ε, δ)-DP of every client against who sees models, by a trusted server's noise.",
    proved=A_TOTAL, noise="Gaussian", released="the gradient of the block whose turn it is",
    confidence="high: standard methods; that clients make the noise is ours",
    local_updates=ONE_GD, objective=NON_SMOOTH, partial=True,
)  # fmt: skip
ONE_SHOT = Method(
    title="one shot", citation="Chaudhuri, Monteleoni, Sarwate 2011, JMLR, arXiv 0912.0071, at every client",
    guarantee="proved", claimed="Pure DP of one release.",
    proved=PURE_ROUNDS, noise="spherical Laplace",
    released="the local minimizer itself, of an objective with noise",
    confidence="high: a standard method, averaged", local_updates=EXACT, objective=SMOOTH, partial=True,
)  # fmt: skip
OPEN = Method(
    title="FedAvg", citation="McMahan, Moore, Ramage, Hampson, Agüera y Arcas 2017, AISTATS, arXiv 1602.05629",
    guarantee="none", claimed="No privacy.", noise="none", released="the last local iterate",
    confidence="high: widely used public code", rate="O(1/(TQ)) if strongly convex and smooth",
    local_updates=SEVERAL, objective=NON_SMOOTH, partial=True, deploys=True,
)  # fmt: skip

METHODS = {
    "fedspd": FEDSPD,
    "fedspd-published": as_published(
        FEDSPD, HIDDEN,
        citation="Li, Wang, Chang, Chi 2022, arXiv 2204.12284, Algorithm 1",
        released="the average of the local steps less the scaled dual",
        private_state="last local iterate and dual", confidence="high: the paper's own text", rate="O(1/sqrt(TQ))",
    ),
    "dp-sgd": DP_SGD,
    "dp-sgd-published": as_published(
        DP_SGD, "the clipping bound is an un-noised statistic of the records",
        private_state="the median of the batch's gradient norms",
    ),
    "dp-fedavg": DP_FEDAVG,
    "dp-fedavg-published": as_published(
        DP_FEDAVG, NO_TOTAL, rate="O(1/(TQ))",
    ),
    "dp-admm": DP_ADMM,
    "dp-admm-published": as_published(
        DP_ADMM, NO_TOTAL, rate="O(1/sqrt(T))",
    ),
    "ddp-admm-dvp": DDP_ADMM_DVP,
    "ddp-admm-pvp": DDP_ADMM_PVP,
    "ddp-admm-pvp-published": as_published(
        DDP_ADMM_PVP, HIDDEN, private_state="the local minimizer",
    ),
    "dp-madmm": DP_MADMM,
    "dp-radmm": DP_RADMM,
    "dp-aadmm": DP_AADMM,
    "dp-lr-admm": DP_LR_ADMM,
    "ps-admm": PS_ADMM,
    "multi-step-dp-admm": MULTI_STEP,
    "private-admm": PRIVATE_ADMM,
    "dp-scaffold": DP_SCAFFOLD,
    "noisy-prox-gd": NOISY_PROX_GD,
    "dp-ftrl": DP_FTRL,
    "one-shot": ONE_SHOT,
    "fedavg": OPEN,
    "fedprox": replace(
        OPEN, title="FedProx", citation="Li, Sahu, Zaheer, Sanjabi, Talwalkar, Smith 2020, MLSys, arXiv 1812.06127",
        rate="O(1/T) to a stationary point, bounded dissimilarity",
    ),
    "fedpd": replace(
        OPEN, title="FedPD", citation="Zhang, Hong, Dhople, Yin, Liu 2021, TSP, doi 10.1109/TSP.2021.3115952",
        released="the last local iterate less the scaled dual", private_state="last local iterate and dual",
        partial=False, rate="O(1/T) to a stationary point, smooth",
    ),
}  # fmt: skip
"""By the name that configurations use: ours, Table 1 in its order, rivals, and what has no privacy."""
