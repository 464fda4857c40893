/* Virtual topologies of all kinds, and collectives of neighbours. */
#include <mpi.h>
#include <stdio.h>

static int me, n;

static void show(const char *what, const int *values, int count) {
  char line[200];
  int size = 0;
  for (int i = 0; i < count; i++) size += snprintf(line + size, sizeof line - size, " %d", values[i]);
  printf("%d: %s%s\n", me, what, line);
}

static void grids(void) {
  int dims[2] = {0, 0}, periods[2] = {1, 0}, coords[2], keep[2] = {1, 0}, rank, ends[2], ndims, kind, values[4];
  MPI_Comm grid, row;
  MPI_Dims_create(n, 2, dims);
  MPI_Cart_create(MPI_COMM_WORLD, 2, dims, periods, 0, &grid);
  MPI_Topo_test(grid, &kind);
  MPI_Cartdim_get(grid, &ndims);
  MPI_Cart_coords(grid, me, 2, coords);
  MPI_Cart_rank(grid, coords, &rank);
  MPI_Cart_shift(grid, 1, 1, &ends[0], &ends[1]);
  printf("%d: grid %d %d, rank %d, coords %d %d, %d\n", me, dims[0], dims[1], rank, coords[0], coords[1], kind == MPI_CART);
  MPI_Cart_get(grid, 2, dims, periods, coords);
  show("periods", periods, ndims);
  show("ends", ends, 2);
  for (int i = 0; i < 4; i++) values[i] = -1;
  MPI_Neighbor_allgather(&me, 1, MPI_INT, values, 1, MPI_INT, grid);
  show("neighbours", values, 4);
  MPI_Cart_sub(grid, keep, &row);
  MPI_Comm_size(row, &rank);
  printf("%d: row of %d\n", me, rank);
  MPI_Cart_map(MPI_COMM_WORLD, 2, dims, periods, &rank);
  printf("%d: mapped %d\n", me, rank);
  MPI_Comm_free(&row);
  MPI_Comm_free(&grid);
}

static void graphs(void) {
  int index[] = {1, 2}, edges[] = {1, 0}, found_index[2], found_edges[2], nodes, count, neighbour = -1, rank;
  MPI_Comm graph;
  MPI_Graph_map(MPI_COMM_WORLD, 2, index, edges, &rank);
  MPI_Graph_create(MPI_COMM_WORLD, 2, index, edges, 0, &graph);
  printf("%d: graph %d %d\n", me, graph == MPI_COMM_NULL, rank == MPI_UNDEFINED);
  if (graph == MPI_COMM_NULL) return;
  MPI_Graphdims_get(graph, &nodes, &count);
  MPI_Graph_get(graph, 2, 2, found_index, found_edges);
  MPI_Graph_neighbors_count(graph, me, &rank);
  MPI_Graph_neighbors(graph, me, 1, &neighbour);
  printf("%d: %d nodes, %d edges, %d neighbours: %d\n", me, nodes, count, rank, neighbour);
  show("index", found_index, 2);
  show("edges", found_edges, 2);
  MPI_Comm_free(&graph);
}

static void distributed(void) {
  int left = (me + n - 1) % n, right = (me + 1) % n, weights[2] = {me, me + 1}, ends[2] = {left, right}, degree = 2;
  int in, out, weighted, sources[2], source_weights[2], destinations[2], destination_weights[2];
  MPI_Comm graph;
  MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, 1, &left, MPI_UNWEIGHTED, 1, &right, MPI_UNWEIGHTED, MPI_INFO_NULL, 0,
                                 &graph);
  MPI_Dist_graph_neighbors_count(graph, &in, &out, &weighted);
  MPI_Dist_graph_neighbors(graph, 1, sources, MPI_UNWEIGHTED, 1, destinations, MPI_UNWEIGHTED);
  printf("%d: adjacent %d %d %d: %d %d\n", me, in, out, weighted, sources[0], destinations[0]);
  MPI_Comm_free(&graph);
  MPI_Dist_graph_create(MPI_COMM_WORLD, 1, &me, &degree, ends, weights, MPI_INFO_NULL, 0, &graph);
  MPI_Dist_graph_neighbors(graph, 2, sources, source_weights, 2, destinations, destination_weights);
  show("to", destinations, 2);
  show("weights", destination_weights, 2);
  MPI_Dist_graph_neighbors_count(graph, &in, &out, &weighted);
  printf("%d: counts %d %d %d\n", me, in, out, weighted);
  MPI_Neighbor_alltoall(destinations, 1, MPI_INT, sources, 1, MPI_INT, graph);
  MPI_Comm_free(&graph);
}

int main(int argc, char **argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &me);
  MPI_Comm_size(MPI_COMM_WORLD, &n);
  grids();
  graphs();
  distributed();
  MPI_Finalize();
  return 0;
}
