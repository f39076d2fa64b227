//go:build !amd64 || noasm

package strided

import "github.com/graphrun/graphrun/internal/machine"

// vectorRows copies rows, and streamRows copies rows with non-temporal stores. They are nil, because this build has no
// assembly routines for rows.
var vectorRows, streamRows rowsFunc

// rowsOf returns nil: see vectorRows.
func rowsOf(machine.Features) (copying, streaming rowsFunc) { return nil, nil }

// fence does nothing: there are no non-temporal stores.
func fence() {}

// hasThreeChannelTranspose reports whether [matrix.transposeThreeChannels] is available.
var hasThreeChannelTranspose = false

// transposeThreeChannels transposes nothing: see hasThreeChannelTranspose.
func (m *matrix) transposeThreeChannels() (transposedElements int) { return 0 }
