"""What every Trainer that fits our modules has: clocks that agree, metrics that are emitted, budgets that end a run."""
