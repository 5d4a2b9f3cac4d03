package main

import "strings"

// nearest returns the word that was probably meant by one that does not exist;
// empty when none is near. Letter case does not count.
func nearest(word string, words []string) string {
	best, bestDistance := "", max(2, len(word)/3)+1
	for _, candidate := range words {
		if distance := editDistance(strings.ToLower(word), strings.ToLower(candidate)); distance < bestDistance {
			best, bestDistance = candidate, distance
		}
	}
	return best
}

// editDistance counts the letters to insert, delete or replace to turn a into b.
func editDistance(a, b string) int {
	from, to := []rune(a), []rune(b)
	row := make([]int, len(to)+1)
	for j := range row {
		row[j] = j
	}
	for i, letter := range from {
		diagonal := row[0]
		row[0] = i + 1
		for j := range to {
			replaced := diagonal
			if letter != to[j] {
				replaced++
			}
			diagonal = row[j+1]
			row[j+1] = min(replaced, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(to)]
}
