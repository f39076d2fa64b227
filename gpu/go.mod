module github.com/graphrun/graphrun/gpu

go 1.26.0

require (
	github.com/ebitengine/purego v0.11.3
	github.com/graphrun/graphrun v0.0.0-20261201055947-ddeff3974192
)
