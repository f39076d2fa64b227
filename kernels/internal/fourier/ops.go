// Package fourier has the discrete Fourier transforms, along one dimension or several, and shifts of their results.
package fourier

import "github.com/graphrun/graphrun/graph"

// Ops returns the ops of this package.
func Ops() []*graph.Op {
	return []*graph.Op{
		FftFft, FftIfft, FftRfft, FftIrfft, FftHfft, FftIhfft, Dft,
		FftFftn, FftFft2, FftIfftn, FftIfft2, FftRfftn, FftRfft2, FftIrfftn, FftIrfft2,
		FftHfftn, FftHfft2, FftIhfftn, FftIhfft2, FftFftshift, FftIfftshift,
	}
}
