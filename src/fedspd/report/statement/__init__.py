"""A privacy statement as people read it: its sections, as a page, as Markdown, and a model card."""
