"""What a simulator may measure of rounds: accuracy, objective, ALFV, and how they end as a history."""
