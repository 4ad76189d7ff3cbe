"""FedAvg in FedJAX: `for_each_client` with its jit backend, noise added by each client as its last step.

FedJAX 0.0.17 calls `jax.tree_map`, which current JAX has under another name; one line below puts it back.
"""
# pyright: basic, reportMissingImports=false, reportAttributeAccessIssue=false

from collections import OrderedDict

import fedjax
import jax
import jax.numpy as jnp
import optax
from workload import BATCH_SIZE, CLASSES, CLIP_NORM, LOCAL_STEPS, NOISE, STEP_SIZE, arguments, load, measure, report

jax.tree_map = jax.tree_util.tree_map


def main() -> None:
    """Time the workload."""
    options = arguments()
    work = load(options.workload)
    shards = {f"{i:05d}": dict(zip(("x", "y"), work.shard(i), strict=True)) for i in range(work.clients)}
    data = fedjax.InMemoryFederatedData(shards)
    test = [{"x": jnp.asarray(work.test_features), "y": jnp.asarray(work.test_labels)}]
    model = fedjax.Model(
        init=lambda rng: jnp.zeros((work.columns, CLASSES)),
        apply_for_train=lambda params, batch, rng: batch["x"] @ params,
        apply_for_eval=lambda params, batch: batch["x"] @ params,
        train_loss=lambda batch, scores: fedjax.metrics.unreduced_cross_entropy_loss(batch["y"], scores),
        eval_metrics=OrderedDict(accuracy=fedjax.metrics.Accuracy()),
    )
    gradient = fedjax.model_grad(model)
    clipped_sgd = optax.chain(optax.clip_by_global_norm(CLIP_NORM), optax.sgd(STEP_SIZE))
    optimizer = fedjax.optimizers.create_optimizer_from_optax(clipped_sgd)
    batches = fedjax.ShuffleRepeatBatchHParams(BATCH_SIZE, num_epochs=None, num_steps=LOCAL_STEPS)

    def client_init(params: jax.Array, rng: jax.Array) -> dict:
        return {"params": params, "state": optimizer.init(params), "rng": rng}

    def client_step(client: dict, batch: dict) -> dict:
        rng, use = jax.random.split(client["rng"])
        slope = gradient(client["params"], batch, use)
        state, params = optimizer.apply(slope, client["state"], client["params"])
        return {"params": params, "state": state, "rng": rng}

    def client_final(params: jax.Array, client: dict) -> jax.Array:
        del params
        return client["params"] + NOISE * jax.random.normal(client["rng"], client["params"].shape)

    train = fedjax.for_each_client(client_init, client_step, client_final)

    def run(rounds: int) -> float:
        sampler = fedjax.client_samplers.UniformGetClientSampler(data, work.participants, seed=0)
        params, accuracy = model.init(jax.random.PRNGKey(0)), 0.0
        for _ in range(rounds):
            clients = [(name, shard.shuffle_repeat_batch(batches), rng) for name, shard, rng in sampler.sample()]
            params = fedjax.tree_util.tree_mean((upload, 1.0) for _, upload in train(params, clients))
            accuracy = float(fedjax.evaluate_model(model, params, test)["accuracy"])
        return accuracy

    report(measure(run, work.rounds, options.warm), "fedjax", "jax", "numpy")


if __name__ == "__main__":
    main()
