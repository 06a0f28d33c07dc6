"""The runner behind `linker-experiments/run`: reads experiments, builds, inspects, measures, judges, prints.

| file | holds |
|---|---|
| `experiment` | one experiment file, read and checked whole before anything is built |
| `expectation` | what a setting should give, as one comparison of a fact |
| `build` | compilers and linkers: programs made, every command kept, what is missing named |
| `facts` | the facts of a program by name, out of `premain inspect --json` |
| `premain` | the verbs of premain that are called |
| `judge` | expectations, signs and predictions against what came out |
| `page` | an experiment as text |
| `record` | an experiment as JSON, small enough to keep |
"""
