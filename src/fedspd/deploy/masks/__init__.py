"""Secure aggregation: sums of uploads that hide every single one. What is masked carries its noise already."""
