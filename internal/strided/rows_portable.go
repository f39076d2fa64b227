//go:build !amd64 || noasm

package strided

import "github.com/graphrun/graphrun/internal/machine"

var vectorRows, streamRows rowsFunc

func rowsOf(machine.Features) (copying, streaming rowsFunc) { return nil, nil }

func fence() {}

var hasThreeChannelTranspose = false

func (m *matrix) transposeThreeChannels() int { return 0 }
