//go:build (linux || darwin) && (amd64 || arm64)

package vulkan_test

import (
	"testing"

	"github.com/graphrun/graphrun/gpu/internal/devicetest"
	"github.com/graphrun/graphrun/gpu/internal/vulkan"
)

func TestExpressions(t *testing.T) { devicetest.Expressions(t, vulkan.Open) }

func TestCalls(t *testing.T) { devicetest.Calls(t, vulkan.Open) }

func TestCopies(t *testing.T) { devicetest.Copies(t, vulkan.Open) }
