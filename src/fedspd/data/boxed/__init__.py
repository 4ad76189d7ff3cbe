"""Real tables that come with the package, or with scikit-learn, each with a declared schema: no network, no cache."""

from fedspd.data.boxed.catalogue import NAMES, Boxed, read_boxed, schema_path
from fedspd.data.boxed.packed import MISSING, Columns

__all__ = ["MISSING", "NAMES", "Boxed", "Columns", "read_boxed", "schema_path"]
