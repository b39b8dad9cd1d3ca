"""Model vendors on loopback that refuse what the real ones refuse, in the real ones' words."""
