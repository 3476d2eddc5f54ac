"""Plans: what is asked, with which arms, on which items, in which order, and what is predicted."""
