      program old
      implicit none
      include 'mpif.h'
      integer e, rank, n, i, v(2), req(4), done, at(4)
      integer st(MPI_STATUS_SIZE), sts(MPI_STATUS_SIZE, 4)
      integer kv, dup, eh, code, class, length, pair(2), win
      integer mem(4)
      integer (kind=MPI_ADDRESS_KIND) value
      logical flag, every
      character*(MPI_MAX_ERROR_STRING) text
      external handler
      call MPI_INIT(e)
      call MPI_COMM_RANK(MPI_COMM_WORLD, rank, e)
      call MPI_COMM_SIZE(MPI_COMM_WORLD, n, e)
      do i = 1, 2
        call MPI_IRECV(v(i), 1, MPI_INTEGER, mod(rank + n - 1, n), i,
     &                 MPI_COMM_WORLD, req(i), e)
        call MPI_ISEND(rank, 1, MPI_INTEGER, mod(rank + 1, n), i,
     &                 MPI_COMM_WORLD, req(2 + i), e)
      end do
      call MPI_BARRIER(MPI_COMM_WORLD, e)
      call MPI_WAITSOME(4, req, done, at, sts, e)
      if (rank .eq. 0) write (*, '(a, 7i5)') 'some', done, at, v
      flag = rank .gt. 0
      call MPI_ALLREDUCE(flag, every, 1, MPI_LOGICAL, MPI_LAND,
     &                   MPI_COMM_WORLD, e)
      if (rank .eq. 0) write (*, *) every
      value = 1234567890123_8
      call MPI_COMM_CREATE_KEYVAL(MPI_COMM_DUP_FN,
     &                   MPI_COMM_NULL_DELETE_FN, kv, value, e)
      call MPI_COMM_SET_ATTR(MPI_COMM_SELF, kv, value, e)
      call MPI_COMM_DUP(MPI_COMM_SELF, dup, e)
      call MPI_COMM_GET_ATTR(dup, kv, value, flag, e)
      if (rank .eq. 0) write (*, '(i0, l2)') value, flag
      call MPI_COMM_CREATE_ERRHANDLER(handler, eh, e)
      call MPI_COMM_SET_ERRHANDLER(dup, eh, e)
      call MPI_SEND(v, 1, MPI_INTEGER, 5, 0, dup, code)
      call MPI_ERROR_CLASS(code, class, e)
      call MPI_ERROR_STRING(class, text, length, e)
      if (rank .eq. 0) write (*, '(a)') text(1:length)
      pair(1) = mod(rank, 2)
      pair(2) = rank
      call MPI_ALLREDUCE(MPI_IN_PLACE, pair, 1, MPI_2INTEGER,
     &                   MPI_MAXLOC, MPI_COMM_WORLD, e)
      if (rank .eq. 0) write (*, '(a, 2i5)') 'maximum', pair
      value = 16
      call MPI_WIN_CREATE(mem, value, 4, MPI_INFO_NULL, MPI_COMM_WORLD,
     &                    win, e)
      call MPI_WIN_FENCE(0, win, e)
      value = 3
      call MPI_PUT(rank, 1, MPI_INTEGER, mod(rank + 1, n), value, 1,
     &             MPI_INTEGER, win, e)
      call MPI_WIN_FENCE(0, win, e)
      if (rank .eq. 0) write (*, '(a, i5)') 'put', mem(4)
      call MPI_WIN_FREE(win, e)
      if (rank .eq. 0) then
        call MPI_PROBE(1, 4, MPI_COMM_WORLD, st, e)
        write (*, '(a, 2i5)') 'probe', st(MPI_SOURCE), st(MPI_TAG)
        call MPI_RECV(MPI_BOTTOM, 0, MPI_INTEGER, 1, 4, MPI_COMM_WORLD,
     &                MPI_STATUS_IGNORE, e)
      else if (rank .eq. 1) then
        call MPI_SEND(v, 0, MPI_INTEGER, 0, 4, MPI_COMM_WORLD, e)
      end if
      call MPI_FINALIZE(e)
      end

      subroutine handler(comm, code)
      integer comm, code
      write (*, '(a, i3)') 'handler', code
      end
