"""What a batch or a source holds, as pictures and pages that one can look at."""
