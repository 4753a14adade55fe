import pg from 'pg'

const [key, id] = process.argv.slice(2)
const amount = 10
const pool = new pg.Pool()
// RECIPE
await pool.end()
