"""What files and pages are made of: bytes as text, whole or in their parts. Knows no store, no tool and no network."""
