//go:build linux && (amd64 || arm64)

package gpu

import "github.com/graphrun/graphrun/gpu/internal/cuda"

func init() { drivers = append(drivers, cuda.Open) }
