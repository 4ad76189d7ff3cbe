"""FedAvg in FedLab: its standalone pipeline and its serial SGD trainer, with clipping and noise added where it trains.

FedLab imports torchvision for image data sets that are not used here. PyPI's torchvision does not load beside a CPU
build of PyTorch, so it is not installed, and empty modules take its place.
"""
# pyright: basic, reportMissingImports=false, reportAttributeAccessIssue=false

import random
import sys
from itertools import islice
from types import ModuleType

import torch
from torch import nn
from torch.nn.utils import clip_grad_norm_
from torch.utils.data import DataLoader, TensorDataset
from workload import BATCH_SIZE, CLASSES, CLIP_NORM, LOCAL_STEPS, NOISE, STEP_SIZE, arguments, load, measure, report

vision = ModuleType("torchvision")
vision.datasets, vision.transforms = ModuleType("torchvision.datasets"), ModuleType("torchvision.transforms")
sys.modules |= {
    "torchvision": vision,
    "torchvision.datasets": vision.datasets,
    "torchvision.transforms": vision.transforms,
}

from fedlab.contrib.algorithm.basic_client import SGDSerialClientTrainer  # noqa: E402
from fedlab.contrib.algorithm.basic_server import SyncServerHandler  # noqa: E402
from fedlab.contrib.dataset.basic_dataset import FedDataset  # noqa: E402
from fedlab.core.standalone import StandalonePipeline  # noqa: E402


class Shards(FedDataset):
    """One data set per client."""

    def __init__(self, shards: list[TensorDataset]) -> None:
        self.shards = shards

    def get_dataloader(self, id: int, batch_size: int) -> DataLoader:
        """Batches of a client in a new order."""
        return DataLoader(self.shards[id], batch_size=batch_size, shuffle=True)


class NoisyTrainer(SGDSerialClientTrainer):
    """A few clipped steps, then noise on what is uploaded."""

    def train(self, model_parameters: torch.Tensor, train_loader: DataLoader) -> list[torch.Tensor]:
        """Train one client for one round."""
        self.set_model(model_parameters)
        for features, labels in islice(train_loader, LOCAL_STEPS):
            loss = self.criterion(self.model(features), labels)
            self.optimizer.zero_grad()
            loss.backward()
            clip_grad_norm_(self.model.parameters(), CLIP_NORM)
            self.optimizer.step()
        return [self.model_parameters + NOISE * torch.randn_like(self.model_parameters)]


class MeasuredPipeline(StandalonePipeline):
    """The pipeline with test accuracy after every round."""

    test: tuple[torch.Tensor, torch.Tensor]
    accuracy = 0.0

    def evaluate(self) -> None:
        """Accuracy of the server's model."""
        features, labels = self.test
        with torch.no_grad():
            self.accuracy = (self.handler.model(features).argmax(dim=1) == labels).float().mean().item()


def main() -> None:
    """Time the workload."""
    options = arguments()
    work = load(options.workload)
    torch.set_num_threads(1)
    shards = Shards([TensorDataset(*map(torch.from_numpy, work.shard(i))) for i in range(work.clients)])
    test = torch.from_numpy(work.test_features), torch.from_numpy(work.test_labels)

    def run(rounds: int) -> float:
        random.seed(0)
        torch.manual_seed(0)
        model = nn.Linear(work.columns, CLASSES, bias=False)
        nn.init.zeros_(model.weight)
        handler = SyncServerHandler(model, rounds, work.participants / work.clients)
        trainer = NoisyTrainer(model, work.clients)
        trainer.setup_dataset(shards)
        trainer.setup_optim(1, BATCH_SIZE, STEP_SIZE)
        pipeline = MeasuredPipeline(handler, trainer)
        pipeline.test = test
        pipeline.main()
        return pipeline.accuracy

    report(measure(run, work.rounds, options.warm), "fedlab", "torch", "numpy")


if __name__ == "__main__":
    main()
