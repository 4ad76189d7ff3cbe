"""FedAvg as a NumPy script that stacks the participants of a round and steps all of them in one matrix product."""

import numpy as np
from workload import BATCH_SIZE, CLASSES, CLIP_NORM, LOCAL_STEPS, NOISE, STEP_SIZE, arguments, load, measure, report


def main() -> None:
    """Time the workload."""
    options = arguments()
    work = load(options.workload)
    one_hot = np.eye(CLASSES, dtype=np.float32)
    sizes = np.diff(work.offsets)

    def run(rounds: int) -> float:
        rng = np.random.default_rng(0)
        model, accuracy = np.zeros((work.columns, CLASSES), np.float32), 0.0
        for _ in range(rounds):
            chosen = rng.choice(work.clients, work.participants, replace=False)
            rows = [rng.permutation(sizes[i])[: LOCAL_STEPS * BATCH_SIZE] + work.offsets[i] for i in chosen]
            drawn = np.reshape(rows, (len(chosen), LOCAL_STEPS, BATCH_SIZE))
            features, targets = work.features[drawn], one_hot[work.labels[drawn]]
            x = np.repeat(model[None], len(chosen), axis=0)
            for step in range(LOCAL_STEPS):
                batch = features[:, step]
                scores = batch @ x
                p = np.exp(scores - scores.max(axis=2, keepdims=True))
                p /= p.sum(axis=2, keepdims=True)
                gradient = batch.transpose(0, 2, 1) @ (p - targets[:, step]) / BATCH_SIZE
                norms = np.linalg.norm(gradient, axis=(1, 2), keepdims=True)
                x -= STEP_SIZE * gradient * np.minimum(1, CLIP_NORM / norms)
            uploads = x + rng.normal(0, NOISE, x.shape)
            model = uploads.mean(axis=0).astype(np.float32)
            accuracy = np.mean(np.argmax(work.test_features @ model, axis=1) == work.test_labels)
        return float(accuracy)

    report(measure(run, work.rounds, options.warm), "numpy")


if __name__ == "__main__":
    main()
