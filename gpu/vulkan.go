//go:build (linux || darwin) && (amd64 || arm64)

package gpu

import "github.com/graphrun/graphrun/gpu/internal/vulkan"

func init() { register("vulkan", vulkan.Open) }
