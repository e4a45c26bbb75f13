"""What nccldoctor has to know about this site."""
