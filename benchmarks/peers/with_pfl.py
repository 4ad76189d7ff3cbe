"""FedAvg in pfl: its simulated backend with a PyTorch model, its Gaussian mechanism applied to each upload."""
# pyright: basic, reportMissingImports=false, reportAttributeAccessIssue=false

import numpy as np
import torch
from pfl.aggregate.simulate import SimulatedBackend
from pfl.algorithm.base import NNAlgorithmParams
from pfl.algorithm.federated_averaging import FederatedAveraging
from pfl.callback.central_evaluation import CentralEvaluationCallback
from pfl.data.dataset import Dataset
from pfl.data.federated_dataset import FederatedDataset
from pfl.data.sampling import get_user_sampler
from pfl.hyperparam.base import NNEvalHyperParams, NNTrainHyperParams
from pfl.metrics import Weighted
from pfl.model.pytorch import PyTorchModel
from pfl.privacy.gaussian_mechanism import GaussianMechanism
from torch import nn
from workload import BATCH_SIZE, CLASSES, CLIP_NORM, LOCAL_STEPS, NOISE, STEP_SIZE, arguments, load, measure, report


class Softmax(nn.Linear):
    """A linear model with the two functions that pfl asks for."""

    def loss(self, features: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        """Mean cross-entropy of a batch."""
        return nn.functional.cross_entropy(self(features), labels)

    def metrics(self, features: torch.Tensor, labels: torch.Tensor) -> dict[str, Weighted]:
        """Accuracy on a batch, weighted by its size."""
        with torch.no_grad():
            right = (self(features).argmax(dim=1) == labels).sum().item()
        return {"accuracy": Weighted(right, len(labels))}


def main() -> None:
    """Time the workload."""
    options = arguments()
    work = load(options.workload)
    torch.set_num_threads(1)
    features, labels = torch.from_numpy(work.features), torch.from_numpy(work.labels)
    test = Dataset((torch.from_numpy(work.test_features), torch.from_numpy(work.test_labels)))

    def shuffled(client: int) -> Dataset:
        begin, end = work.offsets[client : client + 2]
        drawn = torch.randperm(end - begin)[: LOCAL_STEPS * BATCH_SIZE] + begin
        return Dataset((features[drawn], labels[drawn]), user_id=str(client))

    def run(rounds: int) -> float:
        np.random.seed(0)  # noqa: NPY002 - pfl draws from it
        torch.manual_seed(0)
        module = Softmax(work.columns, CLASSES, bias=False)
        nn.init.zeros_(module.weight)
        model = PyTorchModel(module, torch.optim.SGD, torch.optim.SGD(module.parameters(), lr=1.0))
        users = FederatedDataset(shuffled, get_user_sampler("random", list(range(work.clients))))
        largest = LOCAL_STEPS * STEP_SIZE * CLIP_NORM
        backend = SimulatedBackend(users, users, [GaussianMechanism(largest, NOISE / largest)])
        whole = NNEvalHyperParams(local_batch_size=len(work.test_labels))
        model = FederatedAveraging().run(
            NNAlgorithmParams(
                rounds, evaluation_frequency=rounds, train_cohort_size=work.participants, val_cohort_size=0
            ),
            backend,
            model,
            NNTrainHyperParams(
                local_batch_size=BATCH_SIZE,
                local_num_epochs=None,
                local_num_steps=LOCAL_STEPS,
                local_learning_rate=STEP_SIZE,
                local_max_grad_norm=CLIP_NORM,
            ),
            whole,
            callbacks=[CentralEvaluationCallback(test, whole)],
        )
        (_, accuracy), *_ = model.evaluate(test, eval_params=whole)
        return accuracy.overall_value

    report(measure(run, work.rounds, options.warm), "pfl", "torch", "numpy")


if __name__ == "__main__":
    main()
