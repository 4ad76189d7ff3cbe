"""FedAvg in Flower: the message API on its simulation runtime (Ray), PyTorch in the clients, its mod for local noise.

The mod takes a budget; the sensitivity below is the one that makes its noise as large as everybody's. Data is read once
per Ray worker, a client gets one core rather than Flower's two, and Ray's start is no part of the run.
"""
# pyright: basic, reportMissingImports=false, reportAttributeAccessIssue=false, reportArgumentType=false

import math

import torch
from flwr.app import ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.clientapp.mod import LocalDpMod
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import FedAvg
from flwr.simulation import run_simulation
from torch import nn
from torch.nn.utils import clip_grad_norm_
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

EPSILON, DELTA = 1.0, 1e-5
SENSITIVITY = NOISE * EPSILON / math.sqrt(2 * math.log(1.25 / DELTA))


def main() -> None:
    """Time the workload."""
    options = arguments()
    path = options.workload
    work = cached_load(path)
    measured: dict[str, float] = {}
    client_app = ClientApp(mods=[LocalDpMod(LOCAL_STEPS * STEP_SIZE * CLIP_NORM, SENSITIVITY, EPSILON, DELTA)])
    server_app = ServerApp()

    @client_app.train()
    def train(message: Message, context: Context) -> Message:
        torch.set_num_threads(1)
        features, labels = cached_load(path).shard(int(context.node_config["partition-id"]))
        model = nn.Linear(features.shape[1], CLASSES, bias=False)
        model.load_state_dict(message.content["arrays"].to_torch_state_dict())
        optimizer, loss = torch.optim.SGD(model.parameters(), lr=STEP_SIZE), nn.CrossEntropyLoss()
        for batch in torch.randperm(len(labels))[: LOCAL_STEPS * BATCH_SIZE].split(BATCH_SIZE):
            optimizer.zero_grad()
            loss(model(torch.from_numpy(features[batch])), torch.from_numpy(labels[batch])).backward()
            clip_grad_norm_(model.parameters(), CLIP_NORM)
            optimizer.step()
        metrics = MetricRecord({"num-examples": len(labels)})
        return Message(RecordDict({"arrays": ArrayRecord(model.state_dict()), "metrics": metrics}), reply_to=message)

    @server_app.main()
    def serve(grid: Grid, context: Context) -> None:
        del context
        torch.set_num_threads(1)
        model = nn.Linear(work.columns, CLASSES, bias=False)
        nn.init.zeros_(model.weight)
        test_features, test_labels = torch.from_numpy(work.test_features), torch.from_numpy(work.test_labels)

        def accuracy(round: int, arrays: ArrayRecord) -> MetricRecord:
            del round
            model.load_state_dict(arrays.to_torch_state_dict())
            with torch.no_grad():
                right = (model(test_features).argmax(dim=1) == test_labels).float().mean().item()
            return MetricRecord({"accuracy": right})

        def run(rounds: int) -> float:
            nn.init.zeros_(model.weight)
            strategy = FedAvg(
                fraction_train=work.participants / work.clients,
                fraction_evaluate=0.0,
                min_available_nodes=work.clients,
            )
            result = strategy.start(grid, ArrayRecord(model.state_dict()), rounds, evaluate_fn=accuracy)
            return float(result.evaluate_metrics_serverapp[rounds]["accuracy"])

        measured.update(measure(run, work.rounds, options.warm))

    one_core_each = {"client_resources": {"num_cpus": 1, "num_gpus": 0.0}}
    run_simulation(server_app, client_app, num_supernodes=work.clients, backend_config=one_core_each)
    report(measured, "flwr", "ray", "torch", "numpy")


if __name__ == "__main__":
    main()
