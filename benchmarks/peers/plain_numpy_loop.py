"""FedAvg as a straightforward NumPy script writes it: round by round, client by client."""

import numpy as np
from workload import BATCH_SIZE, CLASSES, CLIP_NORM, LOCAL_STEPS, NOISE, STEP_SIZE, arguments, load, measure, report


def main() -> None:
    """Time the workload."""
    options = arguments()
    work = load(options.workload)
    one_hot = np.eye(CLASSES, dtype=np.float32)

    def run(rounds: int) -> float:
        rng = np.random.default_rng(0)
        model, accuracy = np.zeros((work.columns, CLASSES), np.float32), 0.0
        for _ in range(rounds):
            uploads = []
            for client in rng.choice(work.clients, work.participants, replace=False):
                features, labels = work.shard(client)
                x = model.copy()
                for batch in rng.permutation(len(labels))[: LOCAL_STEPS * BATCH_SIZE].reshape(LOCAL_STEPS, BATCH_SIZE):
                    rows = features[batch]
                    scores = rows @ x
                    p = np.exp(scores - scores.max(axis=1, keepdims=True))
                    p /= p.sum(axis=1, keepdims=True)
                    gradient = rows.T @ (p - one_hot[labels[batch]]) / BATCH_SIZE
                    x -= STEP_SIZE * gradient * min(1.0, CLIP_NORM / np.linalg.norm(gradient))
                uploads.append(x + rng.normal(0, NOISE, x.shape))
            model = np.mean(uploads, axis=0, dtype=np.float32)
            accuracy = np.mean(np.argmax(work.test_features @ model, axis=1) == work.test_labels)
        return float(accuracy)

    report(measure(run, work.rounds, options.warm), "numpy")


if __name__ == "__main__":
    main()
