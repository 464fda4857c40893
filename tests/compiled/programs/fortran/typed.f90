program typed
  use mpi_f08
  implicit none
  integer :: rank, n, i, at, got(4), square(4, 4)
  type(MPI_Request) :: requests(2)
  type(MPI_Status) :: status
  type(MPI_Comm) :: cart
  type(MPI_Op) :: op
  logical :: periods(1)
  character(len=12) :: name
  call MPI_Init()
  call MPI_Comm_rank(MPI_COMM_WORLD, rank)
  call MPI_Comm_size(MPI_COMM_WORLD, n)
  call MPI_Isend(rank, 1, MPI_INTEGER, mod(rank + 1, n), 1, MPI_COMM_WORLD, requests(1))
  call MPI_Irecv(i, 1, MPI_INTEGER, mod(rank + n - 1, n), 1, MPI_COMM_WORLD, requests(2))
  call MPI_Waitany(2, requests, at, MPI_STATUS_IGNORE)
  call MPI_Waitall(2, requests, MPI_STATUSES_IGNORE)
  if (rank == 0) print '(a, 2i2, l2)', 'any', at, i, requests(2) == MPI_REQUEST_NULL
  square = reshape([(i, i = 1, 16)], [4, 4])
  if (rank == 0) call MPI_Send(square(2, :), 4, MPI_INTEGER, 1, 0, MPI_COMM_WORLD)
  if (rank == 1) then
    square = 0
    call MPI_Recv(square(3, :), 4_MPI_COUNT_KIND, MPI_INTEGER, 0, 0, MPI_COMM_WORLD, status)
    call MPI_Get_count(status, MPI_INTEGER, i)
    print '(a, 16i3, a, i2)', 'row', square, ' of', i
  end if
  call MPI_Op_create(product, .true., op)
  call MPI_Reduce(rank + 1, got, 1, MPI_INTEGER, op, 0, MPI_COMM_WORLD)
  if (rank == 0) print '(a, i3)', 'product', got(1)
  call MPI_Cart_create(MPI_COMM_WORLD, 1, [n], [.true.], .false., cart)
  call MPI_Cart_get(cart, 1, got, periods, got(2:))
  if (rank == 0) print '(a, 2i2, l2)', 'cart', got(1:2), periods
  call MPI_Comm_set_name(cart, 'a circle  ')
  call MPI_Comm_get_name(cart, name, i)
  if (rank == 0) print '(3a, i3)', '[', name, ']', i
  call MPI_Comm_free(cart)
  if (rank == 0) print '(l1)', cart == MPI_COMM_NULL
  call MPI_Finalize()
contains
  subroutine product(in, inout, length, datatype)
    use, intrinsic :: iso_c_binding, only: c_f_pointer, c_ptr
    type(c_ptr), value :: in, inout
    integer :: length
    type(MPI_Datatype) :: datatype
    integer, pointer :: a(:), b(:)
    call c_f_pointer(in, a, [length])
    call c_f_pointer(inout, b, [length])
    if (datatype == MPI_INTEGER) b = a * b
  end subroutine
end program
