"""What processes of these tests have behind them when they begin: imports, and the first picture with its fonts.

A forked process has all of it at once. So its life is the work that is cut off, and not the start of libraries.
"""

from io import BytesIO

import pytest  # noqa: F401 -- a child imports what its parent ran
import scipy.stats  # noqa: F401
import sklearn.datasets  # noqa: F401
from matplotlib.figure import Figure

import fedspd.assemble
import fedspd.cli.attempt
import fedspd.report
import fedspd.statement
import fedspd.studies.compare
import fedspd.studies.sweep  # noqa: F401

picture = Figure()
picture.subplots().set_title("warm")
picture.savefig(BytesIO(), format="png")
