"""What a sum would have been whose server died: by the masked vectors that it had, and by the secrets of all sites."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from fedspd.algorithms.parts.moves import WEIGHTS
from fedspd.data import read_schema
from fedspd.deploy.masks.fixed_point import decode
from fedspd.deploy.masks.member import Secrets, self_mask
from fedspd.deploy.masks.signed import Scope
from fedspd.deploy.protocol.sums import Part, round_part
from fedspd.deploy.protocol.terms import Terms, columns_of, read_terms
from fedspd.deploy.server.checkpoint import Checkpoint
from fedspd.deploy.server.cohort import merged
from fedspd.deploy.server.gather import Gathered
from fedspd.deploy.site.store import Store


class LostSum:
    """The sum of a first round that nobody unmasked, as long as its sites hold their secrets.

    Args:
        homes: of the sites, each in the sum.
        run: its name.
        masked: their vectors, by place.
    """

    def __init__(self, homes: Sequence[Path], run: str, masked: Mapping[int, np.ndarray]) -> None:
        self.schema, total = read_schema(homes[0] / "schema.toml"), np.zeros_like(masked[0])
        for place, home in enumerate(homes):
            with Store(home / "store.db") as store:
                entered = store.run(run)
                query = "SELECT attempt FROM attempts WHERE run = ? AND round = 1 AND secrets != x''"
                ((attempt,),) = store._connection.execute(query, (run,)).fetchall()
                secrets = store.secrets(run, 1, attempt)
            assert entered is not None
            assert secrets
            self.terms: Terms = read_terms(entered.terms)
            context = Scope(self.terms, 1, attempt).context
            seed = Secrets(bytes.fromhex(json.loads(secrets)["secrets"])).seed
            total += masked[place] - self_mask(seed, total.size, context)
        self.agreed = self.terms.agreed(self.schema)
        self.part: Part = round_part(self.terms, self.agreed, columns_of(self.schema, self.terms.config))
        self.total = decode(total, self.part.noise.grid)

    def weights_after(self, before: Checkpoint) -> np.ndarray:
        """The server's weights if this had been the sum."""
        places = range(len(self.terms.sizes))
        stack = np.zeros((len(places), *before.server.shape[-2:]))
        stack[0] = self.total.reshape(stack[0].shape)
        told = self.agreed.algorithm.broadcast(before.server, 1)
        found = Gathered(stack, dict.fromkeys(places, 1))
        return merged(before, self.terms, self.agreed, told, found).server[WEIGHTS]
