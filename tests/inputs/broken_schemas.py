"""Schemas of the table `good.csv`: a good one, and many with one mistake each."""

COLUMNS = """
[[columns]]
name = "age"
bounds = [0, 100]

[[columns]]
name = "ward"
levels = ["a", "b"]
"""
TARGET = """
[target]
column = "y"
classes = ["no", "yes"]
"""
SCHEMA = TARGET + COLUMNS


def _column(text: str) -> str:
    return f'{TARGET}\n[[columns]]\nname = "age"\n{text}\n'


def _target(text: str) -> str:
    return f'[target]\ncolumn = "y"\n{text}\n{COLUMNS}'


SCHEMAS = {
    "s-empty.toml": "",
    "s-other.toml": SCHEMA.replace('"age"', '"years"'),
    "s-no-target.toml": COLUMNS,
    "s-no-columns.toml": TARGET,
    "s-columns-table.toml": f"{TARGET}\n[columns]\nage = 3\n",
    "s-columns-number.toml": f"columns = 3\n{TARGET}",
    "s-unknown-key.toml": f"clinet = 'site'\n{SCHEMA}",
    "s-client-number.toml": f"client = 3\n{SCHEMA}",
    "s-client-is-target.toml": f"client = 'y'\n{SCHEMA}",
    "s-client-is-column.toml": f"client = 'ward'\n{SCHEMA}",
    "s-markers-text.toml": f"missing_markers = '?'\n{SCHEMA}",
    "s-unreadable-two.toml": f"most_unreadable = 2\n{SCHEMA}",
    "s-unreadable-text.toml": f"most_unreadable = 'all'\n{SCHEMA}",
    "s-twice.toml": SCHEMA + COLUMNS,
    "s-target-as-column.toml": SCHEMA + '[[columns]]\nname = "y"\nlevels = ["no", "yes"]\n',
    "s-target-of-nothing.toml": _target(""),
    "s-target-two-kinds.toml": _target('classes = ["no", "yes"]\nbounds = [0, 1]'),
    "s-target-one-class.toml": _target('classes = ["no"]'),
    "s-target-class-twice.toml": _target('classes = ["no", "no"]'),
    "s-target-class-number.toml": _target("classes = [0, 1]"),
    "s-target-class-text.toml": _target('classes = "no"'),
    "s-target-class-empty.toml": _target('classes = ["", "yes"]'),
    "s-target-bounds-turned.toml": _target("bounds = [1, 0]"),
    "s-target-bounds-one.toml": _target("bounds = [1]"),
    "s-target-bounds-inf.toml": _target("bounds = [0, inf]"),
    "s-target-most-zero.toml": _target("most = 0"),
    "s-target-typical.toml": _target('classes = ["no", "yes"]\ntypical = 3'),
    "s-target-unknown.toml": _target('clases = ["no", "yes"]'),
    "s-column-name.toml": f"{TARGET}\n[[columns]]\nname = 3\nbounds = [0, 1]\n",
    "s-column-no-name.toml": f"{TARGET}\n[[columns]]\nbounds = [0, 1]\n",
    "s-column-neither.toml": _column(""),
    "s-column-both.toml": _column('bounds = [0, 1]\nlevels = ["a"]'),
    "s-bounds-turned.toml": _column("bounds = [1, 0]"),
    "s-bounds-same.toml": _column("bounds = [1, 1]"),
    "s-bounds-nan.toml": _column("bounds = [nan, 1]"),
    "s-bounds-inf.toml": _column("bounds = [-inf, inf]"),
    "s-bounds-huge.toml": _column("bounds = [-1e308, 1e308]"),
    "s-bounds-text.toml": _column('bounds = ["low", "high"]'),
    "s-bounds-three.toml": _column("bounds = [0, 1, 2]"),
    "s-log-negative.toml": _column("bounds = [-1, 1]\nlog = true"),
    "s-log-text.toml": _column("bounds = [0, 1]\nlog = 'yes'"),
    "s-bins-one.toml": _column("bounds = [0, 1]\nbins = 1"),
    "s-bins-million.toml": _column("bounds = [0, 1]\nbins = 1000000"),
    "s-bins-half.toml": _column("bounds = [0, 1]\nbins = 2.5"),
    "s-two-ways.toml": _column("bounds = [0, 1]\nbins = 3\nspline = 5"),
    "s-spline-two.toml": _column("bounds = [0, 1]\nspline = 2"),
    "s-missing-outside.toml": _column("bounds = [0, 1]\nmissing = 2"),
    "s-missing-text.toml": _column("bounds = [0, 1]\nmissing = 'zero'"),
    "s-missing-bin.toml": _column("bounds = [0, 1]\nmissing = 'bin'"),
    "s-zero-outside.toml": _column("bounds = [1, 2]\nbins = 3\nzero = true"),
    "s-level-key.toml": _column("bounds = [0, 1]\ndrop_first = true"),
    "s-bound-key.toml": _column('levels = ["a"]\nbins = 3'),
    "s-levels-empty.toml": _column("levels = []"),
    "s-levels-twice.toml": _column('levels = ["a", "a"]'),
    "s-levels-text.toml": _column('levels = "ab"'),
    "s-levels-number.toml": _column("levels = [1, 2]"),
    "s-missing-level.toml": _column('levels = ["aa", "bb"]\nmissing = "ab"'),
    "s-drop-only.toml": _column('levels = ["a"]\ndrop_first = true'),
    "s-group-unknown.toml": _column('levels = ["a", "b"]\ngroups = {x = ["c"]}'),
    "s-group-text.toml": _column('levels = ["a", "b"]\ngroups = {x = "a"}'),
    "s-group-twice.toml": _column('levels = ["a", "b"]\ngroups = {x = ["a"], z = ["a"]}'),
    "s-ordinal-groups.toml": _column('levels = ["a", "b"]\nordinal = true\ngroups = {x = ["a"]}'),
    "s-unknown-column-key.toml": _column("bound = [0, 1]"),
    "s-product-one.toml": SCHEMA + '[[products]]\ncolumns = ["age"]\n',
    "s-product-same.toml": SCHEMA + '[[products]]\ncolumns = ["age", "age"]\n',
    "s-product-unknown.toml": SCHEMA + '[[products]]\ncolumns = ["age", "wards"]\n',
    "s-product-text.toml": SCHEMA + '[[products]]\ncolumns = "age"\n',
    "s-unconfirmed.toml": SCHEMA.replace("bounds = [0, 100]", "bounds = [0, 100]\nconfirmed = false"),
    "s-confirmed-text.toml": SCHEMA.replace("bounds = [0, 100]", "bounds = [0, 100]\nconfirmed = 'yes'"),
    "s-nul.toml": SCHEMA.replace("ward", "w\x00ard"),
    "s-bins-zero.toml": _column("bounds = [0, 100]\nbins = 0"),
    "s-spline-zero.toml": _column("bounds = [0, 100]\nspline = 0"),
    "s-marker-is-level.toml": f'missing_markers = ["a"]\n{SCHEMA}',
    "s-marker-is-class.toml": f'missing_markers = ["?", "no"]\n{SCHEMA}',
    "s-typical-zero.toml": _target("most = 10\ntypical = 0"),
    "s-most-endless.toml": _target("most = 1e308"),
}
