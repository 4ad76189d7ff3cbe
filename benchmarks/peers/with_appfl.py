"""FedAvg and IIADMM in APPFL: its server and client agents in one process, as its serial simulations use them.

FedAvg takes APPFL's own Gaussian mechanism, with the budget that makes its noise as large as everybody's. IIADMM has
Laplace noise alone, so Gaussian noise is added to what it uploads. The server computes duals from noisy uploads and the
client from its own value, so noise adds up until nothing is learned; here the client's dual is given the noise too.
IIADMM fails when a client joins after the first round, so its rounds are played by the same clients; and of a round's
local steps only the last one's gradient counts, so that it learns slowly here, whatever the penalty.

APPFL collects garbage many times per client and round to save memory; that is switched off. The server's model is
tested in one product rather than by APPFL's data loader. APPFL's image metrics need `piq`, which needs a torchvision
that does not load beside a CPU build of PyTorch: an empty module takes its place.
"""
# pyright: basic, reportMissingImports=false, reportAttributeAccessIssue=false

import math
import sys
from types import ModuleType

import numpy as np
import torch
from torch import nn
from torch.utils.data import TensorDataset
from workload import (
    BATCH_SIZE,
    CLASSES,
    CLIP_NORM,
    LOCAL_STEPS,
    NOISE,
    STEP_SIZE,
    arguments,
    cached_load,
    measure,
    report,
)

FEDAVG, IIADMM = "fedavg", "iiadmm"
PENALTY = 1.0
DELTA = 1e-5  # APPFL's
EPSILON = 2 * CLIP_NORM * STEP_SIZE * math.sqrt(2 * math.log(1.25 / DELTA)) / NOISE


class Softmax(nn.Linear):
    """A linear model; APPFL loads it from this file by name."""

    def __init__(self, columns: int) -> None:
        super().__init__(columns, CLASSES, bias=False)
        nn.init.zeros_(self.weight)


def client_data(path: str, client: int) -> tuple[TensorDataset, None]:
    """Records of one client; APPFL loads it from this file by name."""
    return TensorDataset(*map(torch.from_numpy, cached_load(path).shard(client))), None


def accuracy(labels: np.ndarray, scores: np.ndarray) -> float:
    """Share of right answers; APPFL loads it from this file by name."""
    return float(np.mean(scores.argmax(axis=1) == labels))


def main() -> None:
    """Time the workload."""
    options = arguments(FEDAVG, IIADMM)
    work = cached_load(options.workload)
    torch.set_num_threads(1)
    torch.manual_seed(0)
    sys.modules["piq"] = ModuleType("piq")
    from appfl.agent import ClientAgent, ServerAgent
    from appfl.config import ServerAgentConfig
    from omegaconf import OmegaConf

    test_features = torch.from_numpy(work.test_features)
    frugal = {"optimize_memory": False}
    train = {
        "trainer": "VanillaTrainer" if options.variant == FEDAVG else "IIADMMTrainer",
        "mode": "step",
        "num_local_steps": LOCAL_STEPS,
        "optim": "SGD",
        "optim_args": {"lr": STEP_SIZE},
        "train_batch_size": BATCH_SIZE,
        "loss_fn": "CrossEntropyLoss",
        "metric_path": __file__,
        "metric_name": "accuracy",
        "clip_grad": True,
        "clip_value": CLIP_NORM,
        "clip_norm": 2,
        "use_dp": options.variant == FEDAVG,
        "dp_mechanism": "gaussian",
        "epsilon": EPSILON,
        "init_penalty": PENALTY,
        **frugal,
    }
    model = {"model_path": __file__, "model_name": "Softmax", "model_kwargs": {"columns": work.columns}}

    def build(rounds: int) -> tuple[ServerAgent, list[ClientAgent]]:
        server = ServerAgent(
            ServerAgentConfig(
                client_configs=OmegaConf.create({"train_configs": train, "model_configs": model, **frugal}),
                server_configs=OmegaConf.create(
                    {
                        "num_clients": work.participants,
                        "num_global_epochs": rounds,
                        "scheduler": "SyncScheduler",
                        "scheduler_kwargs": {"num_clients": work.participants, **frugal},
                        "aggregator": "FedAvgAggregator" if options.variant == FEDAVG else "IIADMMAggregator",
                        "aggregator_kwargs": {"client_weights_mode": "equal", **frugal},
                        **frugal,
                    }
                ),
            )
        )
        clients = []
        for i in range(work.clients if options.variant == FEDAVG else work.participants):
            data = {
                "dataset_path": __file__,
                "dataset_name": "client_data",
                "dataset_kwargs": {"path": options.workload, "client": i},
            }
            settings = {"client_id": str(i), "data_configs": data, "train_configs": {}, **frugal}
            client = ClientAgent(OmegaConf.create(settings))
            client.load_config(server.get_client_configs())
            client.load_parameters(server.get_parameters(serial_run=True))
            if options.variant == IIADMM:
                client.trainer.set_weight(1 / work.participants)
            clients.append(client)
        return server, clients

    built = {rounds: build(rounds) for rounds in ([2] if options.warm else []) + [work.rounds]}

    def run(rounds: int) -> float:
        server, clients = built[rounds]
        rng, right = np.random.default_rng(0), 0.0
        for _ in range(rounds):
            told = server.get_parameters(serial_run=True)
            for i in rng.choice(len(clients), work.participants, replace=False):
                client = clients[i]
                client.load_parameters(told)
                client.train()
                upload = client.get_parameters()
                upload, details = upload if isinstance(upload, tuple) else (upload, {})
                if options.variant == IIADMM:
                    for name, value in upload["primal"].items():
                        noise = NOISE * torch.randn_like(value)
                        value += noise
                        client.trainer.dual_states[name] -= PENALTY * noise
                server.global_update(client.get_id(), upload, blocking=False, **details)
            with torch.no_grad():
                right = accuracy(work.test_labels, server.model(test_features).numpy())
        return right

    report(measure(run, work.rounds, options.warm), "appfl", "torch", "numpy")


if __name__ == "__main__":
    main()
