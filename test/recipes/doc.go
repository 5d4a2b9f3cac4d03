// Package recipes runs the recipes of docs/recipes.md with the real programs.
package recipes
