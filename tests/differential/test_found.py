"""Programs on which engines once disagreed, kept as small as they could be made."""
