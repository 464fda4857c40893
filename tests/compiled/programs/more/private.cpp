// What each process has to itself, and ways to end: the same in the process of the simulator.
#include <cassert>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <getopt.h>
#include <iomanip>
#include <iostream>
#include <map>
#include <mpi.h>
#include <stdexcept>
#include <string>
#include <thread>
#include <unistd.h>
#include <vector>

struct Global {
  std::vector<int> v;
  Global() : v(3, 7) {}
  ~Global() { std::cout << "gone " << v.size() << std::endl; }
} global;
thread_local int local = 5;

static void end(const char *how) {
  if (!strcmp(how, "assert")) assert(false);
  if (!strcmp(how, "throw")) throw std::runtime_error("bad");
  printf("partial");
  if (!strcmp(how, "crash")) *(volatile int *)4 = 3;
  if (!strcmp(how, "overflow")) for (volatile char *p = (char *)&how;; p -= 64) *p = 1;
  if (!strcmp(how, "exit")) exit(3);
  if (!strcmp(how, "_exit")) _exit(3);
  if (!strcmp(how, "kill")) kill(getpid(), 9);
}

int main(int argc, char **argv) {
  int me, option, sum = 0;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &me);
  local += me;
  global.v.resize(3 + me);
  srand(me + 1);
  setenv("RANK", std::to_string(me).c_str(), 1);
  while ((option = getopt(argc, argv, "ab:")) != -1) sum += option == 'b' ? atoi(optarg) : 1;
  std::cout << std::setprecision(3 + me) << 3.14159265358979 << " " << sum << " " << optind;
  MPI_Barrier(MPI_COMM_WORLD);
  std::cout << ", local " << local << ", variable " << getenv("RANK") << std::endl;
  std::map<std::string, int> map;
  for (int i = 0; i < 1000; i++) map["key" + std::to_string(i)] = i;
  try {
    MPI_Barrier(MPI_COMM_WORLD);
    throw std::runtime_error("rank " + std::to_string(me));
  } catch (std::exception &e) {
    MPI_Barrier(MPI_COMM_WORLD);
    std::cerr << e.what() << "\n";
    try {
      throw 5;
    } catch (int x) {
      MPI_Barrier(MPI_COMM_WORLD);
      std::cout << x + map["key7"] << " " << std::uncaught_exceptions() << "\n";
    }
  }
  char text[] = "a,b,c", *word = strtok(text, ",");
  MPI_Barrier(MPI_COMM_WORLD);
  word = strtok(NULL, ",");
  printf("%s %d %d %g\n", word, rand(), rand(), drand48());
  std::this_thread::sleep_for(std::chrono::milliseconds(5));
  if (optind < argc && me == 1) end(argv[optind]);
  printf("%g\n", MPI_Wtime());
  MPI_Finalize();
  return me;
}
