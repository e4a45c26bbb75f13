"""Sets right what lines tell once their ranks are known."""
