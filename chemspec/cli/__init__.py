"""The command line: parse, call one function, print.

Exit codes: 0 all went well; 1 something in the input could not be answered (some rows have another status than ok);
2 the command could not be carried out (bad option, missing file, unusable model); 130 interrupted.
"""
