// The whole program of every link test: it runs nothing, it only has to link.
int main() { return 0; }
