"""The weights of the blur, in a file of their own to show that builds see it change."""

taps = (0.25, 0.5, 0.25)
