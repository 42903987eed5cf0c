"""What a BMC is asked, and what it answers."""
