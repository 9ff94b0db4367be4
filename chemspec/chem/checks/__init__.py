"""What is refused or warned of: chemicals of the Weapons Convention, what a flask lacks or forbids, hazards."""
