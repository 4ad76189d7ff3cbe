"""FedAvg as a straightforward PyTorch script writes it: a module, an optimizer and a loop over clients."""
# pyright: basic, reportMissingImports=false

import numpy as np
import torch
from torch import nn
from torch.nn.utils import clip_grad_norm_
from workload import BATCH_SIZE, CLASSES, CLIP_NORM, LOCAL_STEPS, NOISE, STEP_SIZE, arguments, load, measure, report


def main() -> None:
    """Time the workload."""
    options = arguments()
    work = load(options.workload)
    torch.set_num_threads(1)
    features, labels = torch.from_numpy(work.features), torch.from_numpy(work.labels)
    test_features, test_labels = torch.from_numpy(work.test_features), torch.from_numpy(work.test_labels)
    loss = nn.CrossEntropyLoss()

    def run(rounds: int) -> float:
        rng = np.random.default_rng(0)
        torch.manual_seed(0)
        model, local = (nn.Linear(work.columns, CLASSES, bias=False) for _ in range(2))
        nn.init.zeros_(model.weight)
        accuracy = 0.0
        for _ in range(rounds):
            total = torch.zeros_like(model.weight)
            for client in rng.choice(work.clients, work.participants, replace=False):
                begin, end = work.offsets[client : client + 2]
                local.load_state_dict(model.state_dict())
                optimizer = torch.optim.SGD(local.parameters(), lr=STEP_SIZE)
                for batch in (torch.randperm(end - begin)[: LOCAL_STEPS * BATCH_SIZE] + begin).split(BATCH_SIZE):
                    optimizer.zero_grad()
                    loss(local(features[batch]), labels[batch]).backward()
                    clip_grad_norm_(local.parameters(), CLIP_NORM)
                    optimizer.step()
                total += local.weight.detach() + NOISE * torch.randn_like(total)
            with torch.no_grad():
                model.weight.copy_(total / work.participants)
                accuracy = (model(test_features).argmax(dim=1) == test_labels).float().mean().item()
        return accuracy

    report(measure(run, work.rounds, options.warm), "torch", "numpy")


if __name__ == "__main__":
    main()
