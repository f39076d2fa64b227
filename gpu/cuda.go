//go:build linux && (amd64 || arm64)

package gpu

import "github.com/graphrun/graphrun/gpu/internal/cuda"

func init() { register("cuda", cuda.Open) }
