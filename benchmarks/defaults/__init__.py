"""Do the defaults hold on any federation? Every built-in data set, dealt to few and to many, at five budgets.

`python -m benchmarks.defaults run` plays what is missing, `check` says what holds, `write` puts it into
docs/results.md.
"""
