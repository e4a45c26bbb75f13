"""Parts: what ``nccldoctor reduce`` read of some inputs, in a file, to be put together with other parts later."""
