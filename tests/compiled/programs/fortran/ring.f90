! The twin of ring.c, in the interface of Fortran 2008.
program ring
  use mpi_f08
  implicit none
  integer :: me, n, i, token = 0
  double precision :: total
  type(MPI_Status) :: status
  call MPI_Init()
  call MPI_Comm_rank(MPI_COMM_WORLD, me)
  call MPI_Comm_size(MPI_COMM_WORLD, n)
  do i = 1, 3
    if (me > 0) call MPI_Recv(token, 1, MPI_INTEGER, me - 1, 7, MPI_COMM_WORLD, status)
    token = token + 1
    call MPI_Send(token, 1, MPI_INTEGER, mod(me + 1, n), 7, MPI_COMM_WORLD)
    if (me == 0) call MPI_Recv(token, 1, MPI_INTEGER, n - 1, 7, MPI_COMM_WORLD, status)
  end do
  call MPI_Allreduce(dble(me), total, 1, MPI_DOUBLE_PRECISION, MPI_SUM, MPI_COMM_WORLD)
  if (me == 0) print '(a, i0, a, f10.8, a, i0)', 'token ', token, ' after ', MPI_Wtime(), ' s, sum ', int(total)
  call MPI_Finalize()
end program
