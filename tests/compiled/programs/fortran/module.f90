program modules
  use mpi
  use, intrinsic :: iso_c_binding, only: c_f_pointer, c_ptr
  implicit none
  integer :: e, rank, inter, parent, codes(2), win, request, status(MPI_STATUS_SIZE), length
  integer(MPI_ADDRESS_KIND) :: extra = 99
  character(len=80) :: word
  character(len=8) :: words(3) = ['one two ', 'x       ', '        ']
  character(len=6) :: name
  integer, pointer :: memory(:)
  type(c_ptr) :: place
  external :: query, release, cancel
  call MPI_Init(e)
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, e)
  call MPI_Comm_get_parent(parent, e)
  if (parent /= MPI_COMM_NULL) then
    call get_command_argument(1, word)
    print '(a, 2i2, 1x, a)', 'child', rank, command_argument_count(), trim(word)
    call MPI_Comm_disconnect(parent, e)
    call MPI_Finalize(e)
    stop
  end if
  call get_command_argument(0, word)
  call MPI_Comm_spawn(word, words, 2, MPI_INFO_NULL, 0, MPI_COMM_WORLD, inter, codes, e)
  call MPI_Comm_disconnect(inter, e)
  if (rank == 0) print '(a, 2i2)', 'codes', codes
  call MPI_Win_allocate_shared(16_MPI_ADDRESS_KIND, 4, MPI_INFO_NULL, MPI_COMM_SELF, place, win, e)
  call c_f_pointer(place, memory, [4])
  memory = 5
  if (rank == 0) print '(a, 4i2)', 'shared', memory
  call MPI_Win_free(win, e)
  call MPI_Grequest_start(query, release, cancel, extra, request, e)
  call MPI_Grequest_complete(request, e)
  call MPI_Wait(request, status, e)
  if (rank == 0) print '(a, i3)', 'own request', status(MPI_TAG)
  call MPI_Comm_get_name(MPI_COMM_WORLD, name, length, e)
  if (rank == 0) print '(3a, i3)', '[', name, ']', length
  call MPI_Barrier(MPI_COMM_WORLD, e)
  if (rank == 1) error stop 3
  call MPI_Barrier(MPI_COMM_WORLD, e)
end program

subroutine query(extra, status, e)
  use mpi
  integer(MPI_ADDRESS_KIND) :: extra
  integer :: status(MPI_STATUS_SIZE), e
  call MPI_Status_set_elements(status, MPI_INTEGER, 1, e)
  call MPI_Status_set_cancelled(status, .false., e)
  status(MPI_TAG) = int(extra)
end subroutine

subroutine release(extra, e)
  use mpi
  integer(MPI_ADDRESS_KIND) :: extra
  integer :: e
  e = MPI_SUCCESS
end subroutine

subroutine cancel(extra, is_complete, e)
  use mpi
  integer(MPI_ADDRESS_KIND) :: extra
  logical :: is_complete
  integer :: e
  e = MPI_SUCCESS
end subroutine
