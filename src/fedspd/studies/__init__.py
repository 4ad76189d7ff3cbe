"""Many runs that answer one question, a folder for each question: its plan, its run, its page.

`reproduce` reruns the paper's figures and tests its claims, `compare` holds all methods against each other at equal
privacy, `sweep` runs any grid of settings. Shared: `jobs` runs configurations on all cores and remembers them,
`tuning` chooses step sizes by one protocol for every method, `lineup` says who takes part, `folder` writes what is
left.
"""
